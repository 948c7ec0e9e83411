#include "kernel/launch/restarts.hpp"

#include <gmock/gmock.h>

namespace tessera {
namespace restarts_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Restarts, WithoutALimitThereAreNone) {
  Restarts restarts(0);
  const Restarts::Decision decision = restarts.decide({7, "it broke"});
  EXPECT_FALSE(decision.again);
  EXPECT_THAT(decision.why_not, IsEmpty()) << "nobody asked";
}

TEST(Restarts, AreCounted) {
  Restarts restarts(2);
  EXPECT_TRUE(restarts.decide({7, "it broke"}).again);
  EXPECT_TRUE(restarts.decide({8, "it broke"}).again);
  const Restarts::Decision third = restarts.decide({9, "it broke"});
  EXPECT_FALSE(third.again);
  EXPECT_THAT(third.why_not, HasSubstr("2 of 2 restarts are used"));
  EXPECT_EQ(restarts.made(), 2);
}

TEST(Restarts, TheSameFailureIsKnownByItsWordsWithoutNumbers) {
  Restarts restarts(9);
  EXPECT_TRUE(restarts.decide({7, "rank 1 waited 5.0 s at 0x7f1a"}).again);
  EXPECT_TRUE(restarts.decide({7, "the disk is full"}).again) << "another failure";
  EXPECT_TRUE(restarts.decide({8, "rank 1 waited 5.0 s at 0x7f1a"}).again) << "another step";
  const Restarts::Decision same = restarts.decide({7, "rank 0 waited 12.5 s at 0xbead"});
  EXPECT_FALSE(same.again);
  EXPECT_THAT(same.why_not, HasSubstr("the same failure came before, in step 7"));
  EXPECT_TRUE(restarts.decide({0, "no such file"}).again);
  EXPECT_THAT(restarts.decide({0, "no such file"}).why_not, HasSubstr("before the first step"));
}

}  // namespace restarts_test
}  // namespace tessera
