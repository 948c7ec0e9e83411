// comm.staged over devices whose memory is of another kind: every communicator of the host, and
// streams that run in any order that their events allow.
#include <gmock/gmock.h>

#include <atomic>
#include <string>
#include <tuple>

#include "group_conformance_support.hpp"
#include "tessera/error.hpp"
#include "values_support.hpp"

namespace tessera::testing {
namespace staged_test {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

Tensor values(TestRank& rank, i64 elements, u64 salt) {
  return filled(rank.device, elements, DType::fp32, [&](i64 i) {
    return small_value(rank.rank, i, salt, DType::fp32);
  });
}

class Staged : public ::testing::TestWithParam<std::tuple<i64, u64>> {};

TEST_P(Staged, ConformsToPlainLoops) {
  const auto& [world, seed] = GetParam();
  const RankOptions options{.world = world, .deferred_seed = seed, .staged = true};
  EXPECT_THAT(run_threads(options, check_everything), Each(IsEmpty()));
}

std::string case_name(const ::testing::TestParamInfo<Staged::ParamType>& info) {
  const auto& [world, seed] = info.param;
  return std::to_string(world) + (seed == 0 ? "" : "Deferred");
}

INSTANTIATE_TEST_SUITE_P(Ranks,
                         Staged,
                         ::testing::Combine(::testing::Values(2, 3), ::testing::Values(0, 42)),
                         case_name);

TEST(StagedDeferred, RandomSequencesOfOverlappingGroups) {
  const auto errors = run_threads({.world = 4, .deferred_seed = 7, .staged = true},
                                  [](TestRank& rank) { check_random_sequences(rank, 3); });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

TEST(StagedProcesses, ConformToPlainLoops) {
  RankOptions options{.world = 3, .timeout = 60s, .deferred_seed = 3, .staged = true};
  for (const auto run : {&run_shm, &run_gloo}) {
    EXPECT_THAT(run(options, check_everything), Each(IsEmpty()));
  }
  options.world = 4;
  options.hosts = {"a", "b", "a", "b"};
  EXPECT_THAT(run_per_host(options, check_everything), Each(IsEmpty()));
}

TEST(StagedDeferred, DroppedAndSharedWorkKeepsItsTensors) {
  for (u64 seed = 1; seed <= 20; ++seed) {
    const auto errors = run_threads({.deferred_seed = seed, .staged = true}, [](TestRank& rank) {
      check_dropped_work(rank);
      check_waits_for_one(rank);
      const auto group = make_world_group(rank);
      const Tensor tensor = values(rank, 5000, 3);
      Work work = group->all_reduce(rank.stream(), tensor, ReduceOp::sum, "shared");
      Work other = work.share();
      work.wait(rank.stream());
      other.wait(rank.device.comm_stream(CommLane::bulk));
      expect_values(
          tensor,
          [](i64 i) {
            return small_value(0, i, 3, DType::fp32) + small_value(1, i, 3, DType::fp32);
          },
          "shared");
    });
    EXPECT_THAT(errors, Each(IsEmpty())) << "seed " << seed;
  }
}

// What a rank has launched before a barrier is done when others leave it.
TEST(StagedDeferred, BarriersComeAfterWork) {
  for (u64 seed = 1; seed <= 10; ++seed) {
    std::atomic<int> done = 0;
    const auto errors = run_threads({.deferred_seed = seed, .staged = true}, [&](TestRank& rank) {
      const auto group = make_world_group(rank);
      rank.device.launch_host(rank.stream(), "work", [&done] { ++done; });
      group->barrier(rank.stream(), "meet");
      require(done == 2, "{} of 2 ranks were done", done.load());
    });
    EXPECT_THAT(errors, Each(IsEmpty())) << "seed " << seed;
  }
}

// Blocks are used again; none is made once every collective of a step has had one.
TEST(StagedBlocks, AreMadeInTheFirstStepOnly) {
  const auto errors = run_threads({.deferred_seed = 5, .staged = true}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    const Tensor a = values(rank, 5000, 1), b = values(rank, 5000, 2), c = values(rank, 10000, 3);
    const auto step = [&] {
      Work first = group->all_reduce(rank.stream(), a, ReduceOp::max, "first");
      Work second = group->all_reduce(rank.stream(), b, ReduceOp::max, "second");
      second.wait(rank.stream());
      first.wait(rank.stream());
      group->all_gather(rank.stream(), a, c, "third").wait(rank.stream());
    };
    step();
    const MemoryStats first = rank.device.memory();
    // Two of 20,000 bytes and one of 60,000: powers of two.
    require(first.host_blocks == 2 * 32768 + 65536, "{} bytes of host blocks", first.host_blocks);
    for (int i = 0; i < 5; ++i) step();
    require(rank.device.memory().host_blocks == first.host_blocks, "more host blocks");
    require(rank.device.memory().system_calls == first.system_calls, "more requests");
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

// It names the same as on a group of the host: rank, group and operation, and whom it waited for.
TEST(StagedFailure, NamesWhoDidNotCome) {
  const auto errors = run_threads({.timeout = 1s, .staged = true}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    const Tensor tensor = values(rank, 5000, 1);
    rank.end_together({0, 1}, [&] {
      if (rank.rank == 1) return;
      group->all_reduce(rank.stream(), tensor, ReduceOp::sum, "alone").wait(rank.stream());
    });
  });
  EXPECT_THAT(errors[0],
              AllOf(HasSubstr("rank 0, group all[0,1]: all_reduce \"alone\""),
                    HasSubstr("rank 1 has not come")));
  EXPECT_THAT(errors[1], IsEmpty());
}

TEST(StagedFailure, UnderCapture) {
  const auto errors = run_threads({.staged = true}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    const Tensor tensor = values(rank, 16, 1);
    require(!group->capturable(), "capturable");
    rank.device.begin_capture(rank.stream());
    rank.end_together({0, 1}, [&] {
      group->all_reduce(rank.stream(), tensor, ReduceOp::sum, "recorded").wait(rank.stream());
    });
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(errors[rank],
              "rank " + std::to_string(rank) +
                  ", group all[0,1]: all_reduce \"recorded\": its communicator cannot record "
                  "collectives in graphs: choose graph.type = \"none\", or a graph.scope of phases "
                  "in which ranks exchange nothing");
  }
}

}  // namespace staged_test
}  // namespace tessera::testing
