#include "kernel/launch/signals.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "tessera/device/core_ops.hpp"
#include "tessera/error.hpp"
#include "tessera/testing/op_check.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera {
namespace signals_test {

// TSan may hold a signal back that comes as the flag's thread begins, until another one comes.
void let_begin() {
#ifdef __SANITIZE_THREAD__
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
#endif
}

// To the process, as others send it, until the flag has noted it: two of the same that wait to be
// taken are one.
void send(const StopFlag& flag, int signal) {
  const int before = flag.interrupts() + flag.terminations();
  if (before == 0) let_begin();
  kill(getpid(), signal);
  while (flag.interrupts() + flag.terminations() == before) std::this_thread::yield();
}

// After which an interrupt is another one.
constexpr std::chrono::milliseconds kAgain{600};

bool blocked(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

TEST(StopFlag, NotesBothSignals) {
  const StopFlag flag;
  EXPECT_FALSE(flag.requested());
  send(flag, SIGTERM);
  EXPECT_TRUE(flag.requested());
  EXPECT_EQ(flag.signal(), SIGTERM);
  send(flag, SIGTERM);
  send(flag, SIGINT);
  EXPECT_EQ(flag.signal(), SIGTERM);
  EXPECT_EQ(flag.interrupts(), 1);
  EXPECT_EQ(flag.terminations(), 2);
}

TEST(StopFlag, NotesAHangupAndWhatBatchSystemsSend) {
  for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2}) {
    const StopFlag flag;
    send(flag, signal);
    EXPECT_EQ(flag.signal(), signal);
    EXPECT_EQ(flag.terminations(), 1);
    EXPECT_EQ(flag.interrupts(), 0);
  }
}

TEST(StopFlagDeathTest, UntilItBeginsASignalEndsTheProcess) {
  for (const int signal : kStopSignals) {
    EXPECT_EXIT(
        {
          const StopFlag flag(StopFlag::SecondInterrupt::dies, StopFlag::Requests::from_begin);
          let_begin();
          kill(getpid(), signal);
          std::this_thread::sleep_for(std::chrono::minutes(1));
        },
        ::testing::KilledBySignal(signal),
        "");
  }
  StopFlag flag(StopFlag::SecondInterrupt::dies, StopFlag::Requests::from_begin);
  flag.begin();
  send(flag, SIGTERM);
  EXPECT_TRUE(flag.requested());
}

TEST(StopFlagDeathTest, AHangupStaysIgnoredUnderNohup) {
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_IGN);
        const StopFlag flag;
        kill(getpid(), SIGHUP);
        send(flag, SIGUSR1);
        std::_Exit(flag.signal() == SIGUSR1 && flag.terminations() == 1 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0),
      "");
}

TEST(StopFlag, StartsAfreshAndRestoresTheOldHandlers) {
  static int seen = 0;
  seen = 0;
  const auto before = std::signal(SIGINT, [](int) { ++seen; });
  {
    const StopFlag flag;
    EXPECT_FALSE(flag.requested());
  }
  std::raise(SIGINT);
  EXPECT_EQ(seen, 1);
  {
    const StopFlag flag;
    EXPECT_FALSE(flag.requested());
    send(flag, SIGINT);
    EXPECT_TRUE(flag.requested());
  }
  EXPECT_EQ(seen, 1);
  EXPECT_FALSE(StopFlag().requested());
  std::signal(SIGINT, before);
}

TEST(StopFlagDeathTest, ASignalAfterARequestDoesNotChangeTheEnd) {
  EXPECT_EXIT(
      {
        {
          const StopFlag flag;
          send(flag, SIGTERM);
        }
        for (const int signal : kStopSignals) std::raise(signal);
        std::_Exit(kInterrupted);
      },
      ::testing::ExitedWithCode(kInterrupted),
      "");
}

TEST(StopFlagDeathTest, NorDoesOneAfterWhatBeganIsDone) {
  const auto end = [](bool fails) {
    std::signal(SIGTERM, SIG_DFL);  // other tests' flags may have left theirs
    try {
      StopFlag flag(StopFlag::SecondInterrupt::dies, StopFlag::Requests::from_begin);
      flag.begin();
      if (fails) throw Error("it broke");
    } catch (const Error&) {
    }
    std::raise(SIGTERM);
    std::_Exit(0);
  };
  EXPECT_EXIT(end(false), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(end(true), ::testing::KilledBySignal(SIGTERM), "");
}

TEST(StopFlag, OneAtATime) {
  const StopFlag flag;
  EXPECT_THROW(StopFlag(), Error);
}

TEST(StopFlag, CountedInterruptsKillNobody) {
  const StopFlag flag(StopFlag::SecondInterrupt::counted);
  for (int i = 0; i < 3; ++i) {
    if (i > 0) std::this_thread::sleep_for(kAgain);
    send(flag, SIGINT);
  }
  EXPECT_EQ(flag.interrupts(), 3);
}

// To a process and to its group, as `timeout -s INT` sends it.
TEST(StopFlag, TakesAnInterruptThatArrivesTwiceForOne) {
  const StopFlag flag(StopFlag::SecondInterrupt::counted);
  send(flag, SIGINT);
  kill(getpid(), SIGINT);
  send(flag, SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(flag.interrupts(), 1);
}

TEST(StopFlag, IsSetByAThreadOfItsOwn) {
  for (const int signal : kStopSignals) EXPECT_FALSE(blocked(signal));
  {
    const StopFlag flag;
    for (const int signal : kStopSignals) {
      EXPECT_TRUE(blocked(signal));
      std::thread([signal] { EXPECT_TRUE(blocked(signal)); }).join();
    }
  }
  for (const int signal : kStopSignals) EXPECT_FALSE(blocked(signal));
}

// Products of oneDNN set the stack pointer into the heap. A handler that ran there would destroy
// what lies below, and the next malloc or free would end this process.
TEST(StopFlag, LeavesThoseWhoComputeAlone) {
  const StopFlag flag;
  const auto device = test_device("cpu", 1);
  std::atomic<bool> over{false};
  std::thread sender([&] {
    while (!over) send(flag, SIGTERM);
  });
  using testing::Operand;
  const auto product = testing::op_case("input gradient",
                                        MatmulArgs{},
                                        {Operand::random({32, 256}, DType::fp32, 1),
                                         Operand::random({256, 48}, DType::fp32, 2),
                                         Operand::absent(),
                                         Operand::absent(),
                                         Operand::result()});
  for (int i = 0; i < 300; ++i) EXPECT_EQ(testing::run_op(*device, product).wrong, "");
  over = true;
  sender.join();
  EXPECT_GT(flag.terminations(), 0);
}

TEST(StopFlagDeathTest, TheSecondInterruptKills) {
  EXPECT_EXIT(
      {
        const StopFlag flag;
        send(flag, SIGINT);
        std::this_thread::sleep_for(kAgain);
        send(flag, SIGINT);
        std::this_thread::sleep_for(std::chrono::minutes(1));
        std::exit(0);
      },
      ::testing::KilledBySignal(SIGINT),
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
        std::signal(SIGPIPE, SIG_DFL);
        const StopFlag flag;
        write_in_vain(100);
        const bool before = flag.requested();
        write_in_vain(STDOUT_FILENO);
        std::_Exit(!before && flag.output_closed() && flag.signal() == SIGPIPE ? 0 : 1);
      },
      ::testing::ExitedWithCode(0),
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
      ::testing::ExitedWithCode(0),
      "");
}

}  // namespace signals_test
}  // namespace tessera
