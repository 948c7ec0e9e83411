#include "kernel/plugin/find_units.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
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

}  // namespace find_units_test
}  // namespace tessera
