#include "kernel/plugin/find_units.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace tessera {
namespace find_units_test {

DeviceUnits found(DeviceUnits (*units)(), int milliseconds = 20000) {
  ComponentInfo info;
  info.units = units;
  return find_units(info, std::chrono::milliseconds(milliseconds));
}

TEST(FindUnits, TellsWhatTheDeviceSays) {
  const DeviceUnits units = found([] { return DeviceUnits{2, "2 GPUs are visible"}; });
  EXPECT_EQ(units.count, 2);
  EXPECT_EQ(units.text, "2 GPUs are visible");
}

TEST(FindUnits, AsksInAnotherProcess) {
  static pid_t here = getpid();
  EXPECT_EQ(found([] { return DeviceUnits{getpid() == here ? 1 : 2, "text"}; }).count, 2);
}

TEST(FindUnits, SurvivesADriverThatDoesNot) {
  const DeviceUnits crashed = found([]() -> DeviceUnits {
    std::raise(SIGSEGV);
    return {1, "never"};
  });
  EXPECT_EQ(crashed.count, 0);
  EXPECT_EQ(crashed.text, "its driver crashed when it was asked: SIGSEGV");
  const DeviceUnits ended = found([]() -> DeviceUnits { _exit(3); });
  EXPECT_EQ(ended.count, 0);
  EXPECT_EQ(ended.text, "its driver ended the process in which it was asked");
}

TEST(FindUnits, DoesNotWaitForADriverThatHangs) {
  const DeviceUnits hung = found(
      []() -> DeviceUnits {
        std::this_thread::sleep_for(std::chrono::hours(1));
        return {1, "never"};
      },
      200);
  EXPECT_EQ(hung.count, 0);
  EXPECT_EQ(hung.text, "its driver did not answer within 0.2 s");
}

// A process that hangs in the system's kernel is not killed; here its guard is held up instead.
TEST(FindUnits, DoesNotWaitForWhatIsNotKilled) {
  static int guard_at[2];
  ASSERT_EQ(pipe(guard_at), 0);
  const DeviceUnits stuck = found(
      []() -> DeviceUnits {
        const pid_t guard = getppid();
        kill(guard, SIGSTOP);
        const bool told = write(guard_at[1], &guard, sizeof guard) == sizeof guard;
        std::this_thread::sleep_for(std::chrono::seconds(told ? 30 : 0));
        kill(guard, SIGCONT);
        std::this_thread::sleep_for(std::chrono::hours(1));
        return {1, "never"};
      },
      200);
  EXPECT_EQ(stuck.count, 0);
  EXPECT_EQ(stuck.text, "its driver did not answer within 0.2 s");
  pid_t guard = 0;
  ASSERT_EQ(read(guard_at[0], &guard, sizeof guard), static_cast<ssize_t>(sizeof guard));
  EXPECT_EQ(waitpid(guard, nullptr, WNOHANG), 0) << "it was waited for";
  kill(guard, SIGCONT);
  EXPECT_EQ(waitpid(guard, nullptr, 0), guard);
  for (const int end : guard_at) close(end);
}

}  // namespace find_units_test
}  // namespace tessera
