// Time in which ranks stood still, as in a suspended job, is no time in which they waited.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "kernel/comm/control_plane/control_plane.hpp"
#include "ranks_support.hpp"
#include "tessera/error.hpp"
#include "values_support.hpp"

namespace tessera::testing {
namespace suspended_test {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr auto kPatience = 3s;
constexpr auto kSuspended = 5s;

// `wait` is called by all ranks and returns when all have called it. Rank 0 calls it late:
// meanwhile it stops the others, for longer than they are patient.
void while_suspended(TestRank& rank, const std::function<void()>& wait) {
  const auto key = [](i64 of) { return "pid/" + std::to_string(of); };
  if (rank.rank > 0) {
    rank.store.set(key(rank.rank), std::to_string(getpid()));
    return wait();
  }
  std::vector<pid_t> others;
  for (i64 other = 1; other < rank.world; ++other) {
    others.push_back(std::stoi(rank.store.get(key(other), 60s)));
  }
  std::this_thread::sleep_for(300ms);
  for (const pid_t other : others) kill(other, SIGSTOP);
  std::this_thread::sleep_for(kSuspended);
  for (const pid_t other : others) kill(other, SIGCONT);
  std::this_thread::sleep_for(300ms);
  wait();
}

using Run = std::vector<std::string> (*)(const RankOptions&, const RankBody&);

// The store's calls are the same with every communicator.
std::vector<std::string> run(const std::function<void(TestRank&)>& wait) {
  return run_shm({.world = 3}, [&](TestRank& rank) { while_suspended(rank, [&] { wait(rank); }); });
}

class SuspendedCollectives : public ::testing::TestWithParam<Run> {};

TEST_P(SuspendedCollectives, GoOn) {
  for (const i64 n : {100, 1 << 20}) {  // gloo passes on the parts of large ones
    const auto errors = GetParam()({.world = 3, .timeout = kPatience}, [n](TestRank& rank) {
      const auto group = make_world_group(rank);
      const Tensor x = filled(rank.device, n, DType::fp32, [](i64) { return 1; });
      while_suspended(rank,
                      [&] { group->all_reduce(rank.stream(), x, ReduceOp::sum, "late").join(); });
      expect_values(
          x, [](i64) { return 3; }, "sum");
    });
    EXPECT_THAT(errors, Each(IsEmpty())) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Communicators, SuspendedCollectives, ::testing::Values(run_shm, run_gloo));

TEST(Suspended, TheStoreGoesOn) {
  EXPECT_THAT(run([](TestRank& rank) {
                if (rank.rank == 0) return rank.store.set("late", "here");
                require(rank.store.get("late", kPatience) == "here", "another text is there");
              }),
              Each(IsEmpty()));
}

TEST(Suspended, RanksThatCompareGoOn) {
  for (const WaitLimits& limits : {WaitLimits(kPatience), WaitLimits(kPatience, 2s)}) {
    EXPECT_THAT(run([&](TestRank& rank) {
                  if (rank.rank == 0) rank.store.set("rank 0", "is here");
                  if (rank.rank == 1) {  // rank 2 waits for rank 0, and then for this rank, too
                    rank.store.get("rank 0", kPatience);
                    std::this_thread::sleep_for(500ms);
                  }
                  ControlPlane(&rank.store, rank.rank, rank.world, limits).gather("late", "text");
                }),
                Each(IsEmpty()));
  }
}

TEST(Suspended, RanksThatSaveGoOn) {
  for (const bool background : {false, true}) {
    EXPECT_THAT(run([background](TestRank& rank) {
                  ControlPlane ranks(&rank.store, rank.rank, rank.world, WaitLimits(kPatience, 2s));
                  if (background) ranks = ranks.in_background(std::stop_token());
                  ranks.all("parts", [] { return std::string("part"); });
                }),
                Each(IsEmpty()));
  }
}

// In the background a rank may wait for its own thread, which is in a step that takes its time.
TEST(ControlPlaneInBackground, WaitsForAStepAsLongAsItTakes) {
  for (const auto wait : {ControlPlane::Wait::patiently, ControlPlane::Wait::for_a_step}) {
    const auto errors = run_shm({.world = 2}, [wait](TestRank& rank) {
      const ControlPlane ranks =
          ControlPlane(&rank.store, rank.rank, rank.world, WaitLimits(500ms, 2s)).in_background({});
      const auto step = [] {
        std::this_thread::sleep_for(1500ms);
        return std::string();
      };
      ranks.root("turn", step, wait);
    });
    EXPECT_EQ(errors[0], "");
    EXPECT_THAT(errors[1],
                StartsWith(wait == ControlPlane::Wait::for_a_step
                               ? ""
                               : "rank 0's turn did not come: nothing came within 0."));
    EXPECT_EQ(errors[1].empty(), wait == ControlPlane::Wait::for_a_step);
  }
}

}  // namespace suspended_test
}  // namespace tessera::testing
