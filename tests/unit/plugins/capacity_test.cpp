#include "plugins/layers/moe/capacity.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace capacity_test {

TEST(Capacity, IsTheShareTimesTheFactorRoundedUp) {
  EXPECT_EQ(capacity_of(400, 2, 8, 1.0), 100);
  EXPECT_EQ(capacity_of(400, 2, 8, 1.1), 111) << "100 * 1.1 is above 110 in double";
  EXPECT_EQ(capacity_of(400, 2, 8, 1.25), 125);
  EXPECT_EQ(capacity_of(401, 2, 8, 1.0), 101) << "100.25";
  EXPECT_EQ(capacity_of(7, 2, 8, 0.1), 1);
}

TEST(Capacity, IsNeverMoreThanThereAreTokens) {
  EXPECT_EQ(capacity_of(16, 2, 4, 2.0), 16);
  EXPECT_EQ(capacity_of(16, 2, 4, 1e300), 16);
  EXPECT_EQ(capacity_of(16, 4, 4, 1.0), 16);
}

}  // namespace capacity_test
}  // namespace tessera
