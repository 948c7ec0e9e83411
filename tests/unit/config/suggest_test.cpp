#include "tessera/io/suggest.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace suggest_test {

TEST(Suggest, EditDistance) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("betta1", "beta1"), 1);
  EXPECT_EQ(edit_distance("wramup", "warmup"), 1);  // neighbours swapped
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

TEST(Suggest, NearestTakesTheClosest) {
  EXPECT_EQ(nearest("beta", {"beta1", "beat", "theta"}), "beta1");
  EXPECT_EQ(nearest("warm_up_steps", {"min", "warmup_steps"}), "warmup_steps");
}

TEST(Suggest, NothingNearIsNothing) {
  EXPECT_EQ(nearest("tp", {"dp", "pp"}), "dp");
  EXPECT_EQ(nearest("tp", {"lr"}), std::nullopt);      // another word of two letters
  EXPECT_EQ(nearest("rope", {"type"}), std::nullopt);  // and one of four
  EXPECT_EQ(nearest("f23", {"fp32"}), "fp32");
  EXPECT_EQ(nearest("tensor", {"pipeline"}), std::nullopt);
  EXPECT_EQ(nearest("x", {}), std::nullopt);
  EXPECT_EQ(nearest("", {"lr", "x"}), std::nullopt);
}

}  // namespace suggest_test
}  // namespace tessera
