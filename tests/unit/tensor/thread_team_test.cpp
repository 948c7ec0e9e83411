#include "tessera/device/thread_team.hpp"

#include <dlfcn.h>

#include <climits>
#include <functional>
#include <thread>

#include "tensor_support.hpp"
#include "tessera/device/floating_point_mode.hpp"
#include "tessera/parallel_for.hpp"
#include "tests/common/error_of.hpp"

namespace tessera {
namespace thread_team_test {

using testing::error_of;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A function of the OpenMP that libtessera runs on.
template <class Function>
Function* openmp(const char* name) {
  void* address = dlsym(RTLD_DEFAULT, name);
  EXPECT_NE(address, nullptr) << name;
  return reinterpret_cast<Function*>(address);
}

/// On a thread of its own, since settings of OpenMP belong to a thread.
template <class F>
void on_a_thread(F f) {
  std::thread(f).join();
}

TEST(ThreadTeam, IsCounted) {
  on_a_thread([] {
    EXPECT_EQ(team_limit().threads, INT_MAX);
    set_parallel_threads(3);
    EXPECT_NO_THROW(start_team(3));
    EXPECT_NO_THROW(require_team(3));
    EXPECT_EQ(error_of([] { require_team(2); }),
              "a library would plan for 3 threads where this thread works with 2: "
              "omp_set_num_threads was called past set_parallel_threads");
  });
}

TEST(ThreadTeam, IsNotDynamicAndSaysWhoMadeItSo) {
  on_a_thread([] {
    set_parallel_threads(2);
    EXPECT_EQ(openmp<int()>("omp_get_dynamic")(), 0);
    openmp<void(int)>("omp_set_dynamic")(1);
    EXPECT_EQ(error_of([] { require_team(2); }),
              "OpenMP gives this thread a team of 1, not of 2 threads as device.threads says: "
              "something has switched dynamic teams on (omp_set_dynamic); change that, or set "
              "device.threads = 1");
  });
}

#ifndef __SANITIZE_THREAD__
TEST(ThreadTeam, ThatIsSmallerIsAnErrorOfItsLaunch) {
  on_a_thread([] {
    set_parallel_threads(2);
    openmp<void(int)>("omp_set_max_active_levels")(0);
    const std::string text =
        "OpenMP gives this thread a team of 1, not of 2 threads as device.threads says: "
        "omp_set_max_active_levels(0); change that, or set device.threads = 1";
    EXPECT_EQ(team_limit().threads, 1);
    EXPECT_EQ(error_of([] { start_team(2); }), text);
    EXPECT_EQ(error_of([] { require_team(2); }), text);
    int covered = 0;  // by one thread
    EXPECT_EQ(error_of([&] {
                parallel_for(10, 1, [&](i64 begin, i64 end) { covered += int(end - begin); });
              }),
              text);
    EXPECT_EQ(covered, 10);
  });
}

// A loop within a loop runs on the thread that it is in; a library there would plan for more.
TEST(ThreadTeam, WithinATeamIsOneThread) {
  on_a_thread([] {
    set_parallel_threads(2);
    std::string error;
    i64 covered = 0;
    parallel_for(2, 1, [&](i64 begin, i64) {
      if (begin != 0) return;  // the thread that started the team
      parallel_for(10, 1, [&](i64 from, i64 to) { covered += to - from; });
      error = error_of([] { require_team(2); });
    });
    EXPECT_EQ(covered, 10);
    EXPECT_THAT(error, HasSubstr("it is in a parallel region of OpenMP already"));
  });
}
#endif

#ifdef __x86_64__
constexpr u32 kFlushing = 0x1f80 | 0x8040, kUpwards = 0x1f80 | 0x4000;

TEST(FloatingPointModes, AreSetAndDescribed) {
  on_a_thread([] {
    const FloatingPointMode standard = standard_floating_point();
    EXPECT_EQ(floating_point_mode(), standard);
    const FloatingPointMode flushing{.vectors = kFlushing, .x87 = standard.x87};
    set_floating_point_mode(flushing);
    EXPECT_EQ(floating_point_mode(), flushing);
    EXPECT_EQ(floating_point_change(standard, flushing), "switched denormal numbers off");
    EXPECT_EQ(floating_point_change(flushing, standard),
              "changed how floating-point numbers are computed");
  });
}

TEST(FloatingPointModes, OfARanksThreadAreTheStandard) {
  on_a_thread([] {
    set_floating_point_mode({.vectors = kFlushing, .x87 = standard_floating_point().x87});
    ::testing::internal::CaptureStderr();
    testing_support::TestDevice device;
    EXPECT_EQ(floating_point_mode(), standard_floating_point());
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("a library of this process switched denormal numbers off (LD_PRELOAD, or "
                          "linked with -ffast-math?); that was undone in this thread"));
  });
}

#ifndef __SANITIZE_THREAD__
// Whoever watches the calling thread sees it there; the team's thread is as before.
TEST(FloatingPointModes, ThatATeamsThreadLeavesChangedAreTheCallers) {
  on_a_thread([] {
    set_parallel_threads(2);
    const FloatingPointMode standard = standard_floating_point();
    const FloatingPointMode upwards{.vectors = kUpwards, .x87 = standard.x87};
    const auto of_second = [](const std::function<void()>& action) {
      parallel_for(2, 1, [&](i64 begin, i64) {
        if (begin == 1) action();
      });
    };
    of_second([&] { set_floating_point_mode(upwards); });
    EXPECT_EQ(floating_point_mode(), upwards);
    set_floating_point_mode(standard);
    FloatingPointMode second = upwards;
    of_second([&] { second = floating_point_mode(); });
    EXPECT_EQ(second, standard);
    EXPECT_EQ(floating_point_mode(), standard);
  });
}
#endif

TEST(FloatingPointModes, ThatChangeBetweenLaunchesAreAnError) {
  on_a_thread([] {
    testing_support::TestDevice device;
    const Tensor x = testing_support::empty(device, {4});
    testing_support::fill(device.stream(), x, 2);
    set_floating_point_mode({.vectors = kUpwards, .x87 = standard_floating_point().x87});
    EXPECT_THAT(error_of([&] { testing_support::fill(device.stream(), x, 2); }),
                HasSubstr("before operation \"test.fill\" something changed how floating-point "
                          "numbers are rounded in this thread (MXCSR or FPCR is 0x5f80)"));
    set_floating_point_mode(standard_floating_point());
    EXPECT_NO_THROW(testing_support::fill(device.stream(), x, 2));
  });
}
#endif

}  // namespace thread_team_test
}  // namespace tessera
