#include "tessera/device/stood_still.hpp"

#include <gtest/gtest.h>

namespace tessera::testing {
namespace stood_still_test {

using namespace std::chrono_literals;

TEST(StoodStill, CountsWhatAWaitDidNotPlan) {
  const StoodStill::Clock::time_point begin{};
  StoodStill stood_still(begin);
  EXPECT_EQ(stood_still.look(500ms, begin + 500ms), 0s);
  EXPECT_EQ(stood_still.look(500ms, begin + 2s), 0s) << "late by a second: the host is busy";
  EXPECT_EQ(stood_still.look(500ms, begin + 12s), 9500ms);
  EXPECT_EQ(stood_still.look(500ms, begin + 12500ms), 0s) << "it is counted once";
  EXPECT_EQ(stood_still.look({}, begin + 15s), 2500ms);
}

}  // namespace stood_still_test
}  // namespace tessera::testing
