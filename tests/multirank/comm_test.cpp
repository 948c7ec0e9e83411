#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "group_conformance_support.hpp"
#include "sdk/src/shared/progress.hpp"
#include "values_support.hpp"

namespace tessera::testing {
namespace comm_test {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

using Body = void (*)(TestRank&);
struct Case {
  const char* name;
  Body body;
};

class Threads : public ::testing::TestWithParam<std::tuple<i64, u64, Case>> {};

TEST_P(Threads, ConformsToPlainLoops) {
  const auto& [world, seed, test] = GetParam();
  EXPECT_THAT(run_threads({.world = world, .deferred_seed = seed}, test.body), Each(IsEmpty()));
}

const Case kCases[] = {
    {"AllReduce", check_all_reduce},
    {"AllGather", check_all_gather},
    {"ReduceScatter", check_reduce_scatter},
    {"Broadcast", check_broadcast},
    {"Exchange", check_exchange},
    {"SameBits", check_same_bits},
    {"RoundsOnce", check_rounds_once},
    {"ManyUnderWay", check_many_under_way},
    {"GraphReplay", check_graph_replay},
    {"WaitsForOne", check_waits_for_one},
    {"DroppedWork", check_dropped_work},
    {"Random1", [](TestRank& rank) { check_random_sequences(rank, 1); }},
    {"Random2", [](TestRank& rank) { check_random_sequences(rank, 2); }},
};

std::string case_name(const ::testing::TestParamInfo<Threads::ParamType>& info) {
  const auto& [world, seed, test] = info.param;
  return std::string(test.name) + std::to_string(world) + (seed == 0 ? "" : "Deferred");
}

INSTANTIATE_TEST_SUITE_P(Inline,
                         Threads,
                         ::testing::Combine(::testing::Values(2, 3, 4, 8),
                                            ::testing::Values(0),
                                            ::testing::ValuesIn(kCases)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Deferred,
                         Threads,
                         ::testing::Combine(::testing::Values(2, 3),
                                            ::testing::Values(42),
                                            ::testing::ValuesIn(kCases)),
                         case_name);

// Each seed is another order of the streams.
TEST(ThreadsDeferred, DroppedWorkKeepsItsTensors) {
  for (u64 seed = 1; seed <= 20; ++seed) {
    EXPECT_THAT(run_threads({.world = 2, .deferred_seed = seed}, check_dropped_work),
                Each(IsEmpty()))
        << "seed " << seed;
  }
}

TEST(ThreadsDeferred, WaitsAreForOneCollective) {
  for (u64 seed = 1; seed <= 20; ++seed) {
    EXPECT_THAT(run_threads({.world = 2, .deferred_seed = seed}, check_waits_for_one),
                Each(IsEmpty()))
        << "seed " << seed;
  }
}

TEST(ThreadsBarrier, HoldsEveryone) {
  std::atomic<int> arrived = 0;
  const auto errors = run_threads({.world = 4}, [&](TestRank& rank) {
    const auto group = make_world_group(rank);
    for (int round = 1; round <= 100; ++round) {
      ++arrived;
      group->barrier(rank.stream(), "meet");
      EXPECT_GE(arrived, 4 * round);
    }
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

// Every rank's error must name it, the group and the operation.
void expect_failures(const RankOptions& options,
                     const RankBody& body,
                     const std::vector<std::vector<std::string>>& texts) {
  const std::vector<std::string> errors = run_threads(options, body);
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    for (const std::string& text : texts[rank]) EXPECT_THAT(errors[rank], HasSubstr(text));
    EXPECT_EQ(texts[rank].empty(), errors[rank].empty()) << errors[rank];
  }
}

TEST(ThreadsFailure, SizesThatDiffer) {
  for (const i64 n : {100, 5000}) {
    expect_failures(
        {.world = 3},
        [n](TestRank& rank) {
          const auto group = make_world_group(rank);
          const i64 mine = rank.rank == 1 ? n + 1 : n;
          const Tensor tensor = filled(rank.device, mine, DType::fp32, [](i64) { return 1; });
          group->all_reduce(rank.stream(), tensor, ReduceOp::sum, "mlp.down").wait(rank.stream());
        },
        {{"rank 0, group all[0,1,2]: all_reduce \"mlp.down\"",
          std::to_string(n * 4) + " bytes",
          std::to_string(n * 4 + 4) + " bytes"},
         {"rank 1, group all[0,1,2]", std::to_string(n * 4) + " bytes"},
         {"rank 2, group all[0,1,2]", std::to_string(n * 4 + 4) + " bytes"}});
  }
}

TEST(ThreadsFailure, NamesKindsAndOperatorsThatDiffer) {
  for (const int difference : {0, 1, 2, 3}) {
    const std::vector<std::string> sides[] = {
        {"\"a\"", "\"b\""}, {"all_reduce", "broadcast"}, {"sum", "max"}, {"fp32", "i32"}};
    std::vector<std::string> texts = sides[difference];
    texts.emplace_back("group all[0,1]");
    expect_failures({.world = 2},
                    [difference](TestRank& rank) {
                      const auto group = make_world_group(rank);
                      const bool other = rank.rank == 1;
                      const bool type = other && difference == 3;
                      const Tensor tensor = filled(
                          rank.device, 10, type ? DType::i32 : DType::fp32, [](i64) { return 1; });
                      const char* name = other && difference == 0 ? "b" : "a";
                      Work work;
                      if (other && difference == 1) {
                        work = group->broadcast(rank.stream(), tensor, 0, name);
                      } else {
                        const bool max = other && difference == 2;
                        work = group->all_reduce(
                            rank.stream(), tensor, max ? ReduceOp::max : ReduceOp::sum, name);
                      }
                      work.wait(rank.stream());
                    },
                    {texts, texts});
  }
}

TEST(ThreadsFailure, SendAndReceiveThatDiffer) {
  expect_failures({.world = 2},
                  [](TestRank& rank) {
                    const auto group = make_world_group(rank);
                    const Tensor tensor =
                        filled(rank.device, 10 + rank.rank, DType::fp32, [](i64) { return 1; });
                    const ProcessGroup::Part part{1 - group->index(), tensor};
                    if (rank.rank == 0)
                      group->exchange(rank.stream(), {part}, {}, "to next").wait(rank.stream());
                    if (rank.rank == 1)
                      group->exchange(rank.stream(), {}, {part}, "to next").wait(rank.stream());
                  },
                  {{"rank 0, group all[0,1]: exchange \"to next\"", "rank 1 failed", "40 bytes"},
                   {"rank 1, group all[0,1]: exchange \"to next\"", "40 bytes", "44 bytes"}});
}

TEST(ThreadsFailure, RankThatDoesNotCome) {
  expect_failures(
      {.world = 3, .timeout = 1s},
      [](TestRank& rank) {
        const auto group = make_world_group(rank);
        if (rank.rank == 1) return rank.await("end", {0, 2});
        rank.end_together({0, 2}, [&] {
          const Tensor tensor = filled(rank.device, 10, DType::fp32, [](i64) { return 1; });
          group->all_reduce(rank.stream(), tensor, ReduceOp::sum, "late").wait(rank.stream());
        });
      },
      {{"rank 0", "group all[0,1,2]: all_reduce \"late\" #0", "rank 1 has not come"},
       {},
       {"rank 2", "group all[0,1,2]: all_reduce \"late\" #0", "rank 1 has not come"}});
}

// The wait that ends names what it waited for, and not an older send that nobody has taken either.
TEST(ThreadsFailure, NamesTheCollectiveThatWasWaitedFor) {
  expect_failures(
      {.world = 2, .timeout = 1s},
      [](TestRank& rank) {
        const auto group = make_world_group(rank);
        if (rank.rank == 1) return rank.await("end", {0});
        rank.end_together({0}, [&] {
          const Tensor tensor = filled(rank.device, 5000, DType::fp32, [](i64) { return 1; });
          const Tensor other = filled(rank.device, 5000, DType::fp32, [](i64) { return 1; });
          Work sent = group->exchange(rank.stream(), {{1, tensor}}, {}, "an older send");
          Work both = group->exchange(rank.stream(), {{1, tensor}}, {{1, other}}, "this one");
          both.wait_received(rank.stream());
        });
      },
      {{"rank 0, group all[0,1]: exchange \"this one\": timed out", "rank 1 has not sent"}, {}});
}

TEST(ThreadsFailure, RankThatEnds) {
  expect_failures(
      {.world = 3, .timeout = 60s},
      [](TestRank& rank) {
        const auto group = make_world_group(rank);
        if (rank.rank == 1) return;
        const Tensor tensor = filled(rank.device, 5000, DType::fp32, [](i64) { return 1; });
        group->all_reduce(rank.stream(), tensor, ReduceOp::sum, "alone").wait(rank.stream());
      },
      {{"rank 0, group all[0,1,2]: all_reduce \"alone\"", "rank 1 failed: it has ended"},
       {},
       {"rank 2, group all[0,1,2]: all_reduce \"alone\"", "rank 1 failed: it has ended"}});
}

TEST(ThreadsFailure, RankThatAborts) {
  expect_failures(
      {.world = 3, .timeout = 60s},
      [](TestRank& rank) {
        const auto group = make_world_group(rank);
        if (rank.rank == 2) return rank.communicator.abort("the disk is full");
        const Tensor tensor = filled(rank.device, 5000, DType::fp32, [](i64) { return 1; });
        group->all_reduce(rank.stream(), tensor, ReduceOp::sum, "alone").wait(rank.stream());
      },
      {{"rank 0", "all_reduce \"alone\"", "rank 2 failed: the disk is full"},
       {"rank 1", "all_reduce \"alone\"", "rank 2 failed: the disk is full"},
       {}});
}

TEST(ThreadsFailure, ReportedByDeferredStreamsToo) {
  expect_failures(
      {.world = 2, .timeout = 1s, .deferred_seed = 7},
      [](TestRank& rank) {
        const auto group = make_world_group(rank);
        if (rank.rank == 1) return rank.await("end", {0});
        rank.end_together({0}, [&] {
          const Tensor tensor = filled(rank.device, 10, DType::fp32, [](i64) { return 1; });
          group->all_reduce(rank.stream(), tensor, ReduceOp::sum, "late").wait(rank.stream());
          rank.device.synchronize(rank.stream());
        });
      },
      {{"rank 0", "group all[0,1]: all_reduce \"late\"", "timed out"}, {}});
}

TEST(ThreadsGroup, KeepsTheLast32Collectives) {
  const auto errors = run_threads({.world = 2}, [](TestRank& rank) {
    Progress progress;
    const auto group = make_world_group(rank, 0, &progress);
    const Tensor tensor = filled(rank.device, 6, DType::fp32, [](i64) { return 1; });
    for (int k = 0; k < 40; ++k) {
      group->all_reduce(rank.stream(), tensor.view({2, 3}), ReduceOp::sum, "k" + std::to_string(k))
          .join();
    }
    const std::vector<std::string> record = progress.collectives();
    EXPECT_EQ(record.size(), 32U);
    EXPECT_EQ(record.front(), "all[0,1] #8 all_reduce k8 fp32 [2, 3]");
    EXPECT_EQ(record.back(), "all[0,1] #39 all_reduce k39 fp32 [2, 3]");
    EXPECT_EQ(group->counters()[CollectiveKind::all_reduce].bytes, 40 * 24);
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

TEST(ThreadsGroup, LeavesItsPlaceInTheRecordToTheNext) {
  const auto errors = run_threads({.world = 2}, [](TestRank& rank) {
    Progress progress;
    for (int k = 0; k < 40; ++k) {
      make_world_group(rank, k, &progress)->barrier(rank.stream(), "k" + std::to_string(k));
    }
    EXPECT_EQ(progress.collectives(), std::vector<std::string>{"all[0,1] #0 barrier k39 0 bytes"});
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

TEST(ThreadsGroup, TwoWorldsInOneProcess) {
  const auto world = [](double value) {
    return [value](TestRank& rank) {
      const auto group = make_world_group(rank);
      for (int k = 0; k < 50; ++k) {
        const Tensor tensor = filled(rank.device, 2000, DType::fp32, [&](i64) { return value; });
        group->all_reduce(rank.stream(), tensor, ReduceOp::sum, "both").wait(rank.stream());
        expect_values(
            tensor, [&](i64) { return 2 * value; }, "two worlds");
      }
    };
  };
  std::vector<std::string> first;
  std::thread other([&] { first = run_threads({.world = 2}, world(3)); });
  EXPECT_THAT(run_threads({.world = 2}, world(5)), Each(IsEmpty()));
  other.join();
  EXPECT_THAT(first, Each(IsEmpty()));
}

TEST(ThreadsGroup, OfOneCopiesWhereItMust) {
  const auto errors = run_threads({.world = 1}, [](TestRank& rank) {
    Progress progress;
    ProcessGroup group(
        {.name = "tp[0]", .members = {0}, .index = 0, .id = 0}, nullptr, 0, &progress);
    const Tensor tensor = filled(rank.device, 6, DType::fp32, [](i64 i) { return double(i); });
    group.all_reduce(rank.stream(), tensor, ReduceOp::sum, "x").wait(rank.stream());
    group.all_gather(rank.stream(), tensor, tensor, "x").wait(rank.stream());
    group.barrier(rank.stream(), "x");
    expect_values(
        tensor, [](i64 i) { return double(i); }, "group of one");
    EXPECT_EQ(group.counters()[CollectiveKind::all_reduce].calls, 0);
    EXPECT_TRUE(progress.collectives().empty());
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

}  // namespace comm_test
}  // namespace tessera::testing
