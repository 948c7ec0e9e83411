#include "kernel/launch/signals.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "tessera/error.hpp"

namespace tessera {
namespace {

TEST(StopFlag, NotesBothSignals) {
  const StopFlag flag;
  EXPECT_FALSE(flag.requested());
  std::raise(SIGTERM);
  EXPECT_TRUE(flag.requested());
  EXPECT_EQ(flag.signal(), SIGTERM);
  std::raise(SIGTERM);
  std::raise(SIGINT);
  EXPECT_EQ(flag.signal(), SIGTERM);
  EXPECT_EQ(flag.interrupts(), 1);
  EXPECT_EQ(flag.terminations(), 2);
}

TEST(StopFlag, StartsAfreshAndRestoresTheOldHandlers) {
  static int seen = 0;
  seen = 0;
  const auto before = std::signal(SIGINT, [](int) { ++seen; });
  {
    const StopFlag flag;
    EXPECT_FALSE(flag.requested());
    std::raise(SIGINT);
    EXPECT_TRUE(flag.requested());
  }
  EXPECT_EQ(seen, 0);
  std::raise(SIGINT);
  EXPECT_EQ(seen, 1);
  std::signal(SIGINT, before);
}

TEST(StopFlag, OneAtATime) {
  const StopFlag flag;
  EXPECT_THROW(StopFlag(), Error);
}

TEST(StopFlag, CountedInterruptsKillNobody) {
  const StopFlag flag(StopFlag::SecondInterrupt::counted);
  std::raise(SIGINT);
  std::raise(SIGINT);
  std::raise(SIGINT);
  EXPECT_EQ(flag.interrupts(), 3);
}

TEST(StopFlagDeathTest, TheSecondInterruptKills) {
  EXPECT_EXIT(
      {
        const StopFlag flag;
        std::raise(SIGINT);
        std::raise(SIGINT);
        std::exit(0);
      },
      testing::KilledBySignal(SIGINT),
      "");
}

}  // namespace
}  // namespace tessera
