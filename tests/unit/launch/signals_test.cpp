#include "kernel/launch/signals.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

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

// Writes to a pipe that nobody reads, as this descriptor.
void write_in_vain(int descriptor) {
  int ends[2];
  if (pipe(ends) != 0 || close(ends[0]) != 0 || dup2(ends[1], descriptor) < 0) std::abort();
  if (write(descriptor, "x", 1) == 1) std::abort();
}

TEST(StopFlagDeathTest, AClosedOutputIsNotedAndOtherPipesAreNot) {
  EXPECT_EXIT(
      {
        const StopFlag flag;
        write_in_vain(100);
        const bool before = flag.requested();
        write_in_vain(STDOUT_FILENO);
        std::_Exit(!before && flag.output_closed() && flag.signal() == SIGPIPE ? 0 : 1);
      },
      testing::ExitedWithCode(0),
      "");
}

TEST(StopFlagDeathTest, WhoIgnoresBrokenPipesGoesOn) {
  EXPECT_EXIT(
      {
        std::signal(SIGPIPE, SIG_IGN);
        const StopFlag flag;
        write_in_vain(STDOUT_FILENO);
        std::_Exit(flag.requested() ? 1 : 0);
      },
      testing::ExitedWithCode(0),
      "");
}

}  // namespace
}  // namespace tessera
