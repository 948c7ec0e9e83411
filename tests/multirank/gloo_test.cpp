// Communicator "gloo" between real processes, over loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "group_conformance_support.hpp"
#include "tessera/error.hpp"
#include "values_support.hpp"

namespace tessera::testing {
namespace gloo_test {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

class Gloo : public ::testing::TestWithParam<i64> {};

TEST_P(Gloo, ConformsToPlainLoops) {
  EXPECT_THAT(run_gloo({.world = GetParam(), .timeout = 60s}, check_everything), Each(IsEmpty()));
}

Tensor values(TestRank& rank, i64 elements, u64 salt) {
  return filled(rank.device, elements, DType::fp32, [&](i64 i) {
    return small_value(rank.rank, i, salt, DType::fp32);
  });
}

double total(i64 world, i64 i, u64 salt) {
  double sum = 0;
  for (i64 rank = 0; rank < world; ++rank) sum += small_value(rank, i, salt, DType::fp32);
  return sum;
}

// Beyond what fits into a header and into the buffers of a socket.
TEST_P(Gloo, LargeAndEmpty) {
  const auto errors = run_gloo({.world = GetParam(), .timeout = 60s}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    const i64 p = rank.world;
    for (const i64 n : {i64{0}, i64{2047}, i64{2048}, i64{2049}, i64{1} << 18, i64{1300001}}) {
      const u64 salt = static_cast<u64>(n);
      const Tensor summed = values(rank, n, salt);
      group->all_reduce(rank.stream(), summed, ReduceOp::sum, "large").wait(rank.stream());
      expect_values(
          summed, [&](i64 i) { return total(p, i, salt); }, "large all_reduce");

      const Tensor spread = values(rank, n, salt);
      group->broadcast(rank.stream(), spread, static_cast<int>(p - 1), "large").wait(rank.stream());
      expect_values(
          spread,
          [&](i64 i) { return small_value(p - 1, i, salt, DType::fp32); },
          "large broadcast");

      const Tensor scattered = values(rank, n, salt);
      group->reduce_scatter(rank.stream(), values(rank, n * p, salt), scattered, "large")
          .wait(rank.stream());
      expect_values(
          scattered,
          [&](i64 i) { return total(p, rank.rank * n + i, salt); },
          "large reduce_scatter");

      const Tensor gathered = values(rank, n * p, salt);
      group->all_gather(rank.stream(), values(rank, n, salt), gathered, "large")
          .wait(rank.stream());
      expect_values(
          gathered,
          [&](i64 i) { return small_value(i / n, i % n, salt, DType::fp32); },
          "large all_gather");
    }
    group->barrier(rank.stream(), "end");
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Ranks,
                         Gloo,
                         ::testing::Values(2, 3, 4),
                         ::testing::PrintToStringParamName());

TEST(GlooGroup, DeferredStreamsAndReplay) {
  EXPECT_THAT(run_gloo({.world = 2, .timeout = 60s, .deferred_seed = 5},
                       [](TestRank& rank) {
                         check_random_sequences(rank, 9);
                         check_graph_replay(rank);
                         check_waits_for_one(rank);
                         check_dropped_work(rank);
                       }),
              Each(IsEmpty()));
}

// What the ranks of a pipeline do: a send ends when the peer has come to its receive, whatever else
// the peer waits for.
TEST(GlooGroup, ExchangesWithDifferentPeersAreIndependent) {
  const auto errors = run_gloo({.world = 3, .timeout = 10s}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    const i64 n = 100000;
    const auto swap = [&](const std::vector<ProcessGroup::Part>& sends,
                          const std::vector<ProcessGroup::Part>& receives) {
      return group->exchange(rank.stream(), sends, receives, "pass");
    };
    const Tensor a = values(rank, n, 1), b = values(rank, n, 2);
    if (rank.rank == 0) {
      Work first = swap({}, {{1, a}});
      swap({}, {{2, b}}).wait(rank.stream());
      first.wait(rank.stream());
      expect_values(
          a, [](i64 i) { return small_value(2, i, 1, DType::fp32); }, "passed on");
    } else if (rank.rank == 2) {
      swap({{0, b}}, {}).join();
      swap({{1, a}}, {}).join();
    } else {
      swap({}, {{2, a}}).join();
      swap({{0, a}}, {}).join();
    }
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

TEST(GlooGroup, MadeAgain) {
  const auto errors = run_gloo({.world = 2}, [](TestRank& rank) {
    for (u64 round = 0; round < 3; ++round) {
      const auto group = make_world_group(rank);
      const Tensor tensor = values(rank, 3000, round);
      group->all_reduce(rank.stream(), tensor, ReduceOp::sum, "again").join();
      expect_values(
          tensor, [&](i64 i) { return total(2, i, round); }, "made again");
    }
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

TEST(GlooFailure, KilledRankTakesTheOthersDown) {
  for (const i64 n : {100, 1 << 20}) {
    const auto errors = run_gloo({.world = 3, .timeout = 60s}, [n](TestRank& rank) {
      const auto group = make_world_group(rank);
      group->all_reduce(rank.stream(), values(rank, n, 0), ReduceOp::sum, "first").join();
      if (rank.rank == 1) {
        rank.await("second", {0, 2});
        kill(getpid(), SIGKILL);
      }
      rank.reach("second");
      group->all_reduce(rank.stream(), values(rank, n, 0), ReduceOp::sum, "second").join();
    });
    EXPECT_EQ(errors[1], "killed by signal 9");
    for (const int rank : {0, 2}) {
      const std::string& error = errors[static_cast<std::size_t>(rank)];
      EXPECT_THAT(error, HasSubstr("rank " + std::to_string(rank) + ", group all[0,1,2]"));
      EXPECT_THAT(error, HasSubstr("all_reduce \"second\""));
      EXPECT_THAT(error, HasSubstr("rank 1 failed: it"));
    }
  }
}

TEST(GlooFailure, KilledInTheMiddleOfATransfer) {
  const auto errors = run_gloo({.world = 2, .timeout = 60s}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    const Tensor tensor = values(rank, 8 << 20, 0);
    Work work = group->all_reduce(rank.stream(), tensor, ReduceOp::sum, "cut");
    std::this_thread::sleep_for(3ms);
    if (rank.rank == 1) kill(getpid(), SIGKILL);
    work.join();
    group->barrier(rank.stream(), "after");
  });
  EXPECT_EQ(errors[1], "killed by signal 9");
  EXPECT_THAT(errors[0], HasSubstr("rank 0, group all[0,1]"));
  EXPECT_THAT(errors[0], HasSubstr("rank 1 failed: it"));
}

TEST(GlooFailure, StoppedRankIsATimeout) {
  const auto errors = run_gloo({.world = 2, .timeout = 1s}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    const Tensor pids = filled(rank.device, 2, DType::i64, [](i64) { return getpid(); });
    group->broadcast(rank.stream(), pids, 1, "pid").join();
    if (rank.rank == 1) kill(getpid(), SIGSTOP);
    try {
      group->all_reduce(rank.stream(), values(rank, 5000, 0), ReduceOp::sum, "late").join();
    } catch (const Error&) {
      kill(static_cast<pid_t>(values_of(pids)[0]), SIGKILL);
      throw;
    }
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 0, group all[0,1]: all_reduce \"late\" #1: timed out"));
  EXPECT_THAT(errors[0], HasSubstr("rank 1 has not come"));
  EXPECT_EQ(errors[1], "killed by signal 9");
}

TEST(GlooFailure, RankThatEnds) {
  const auto errors = run_gloo({.world = 3, .timeout = 60s}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    if (rank.rank == 1) return;
    group->all_reduce(rank.stream(), values(rank, 5000, 0), ReduceOp::sum, "alone").join();
  });
  for (const int rank : {0, 2}) {
    const std::string& error = errors[static_cast<std::size_t>(rank)];
    EXPECT_THAT(error, HasSubstr("all_reduce \"alone\""));
    EXPECT_THAT(error, HasSubstr("rank 1 failed: its connection closed"));
  }
  EXPECT_EQ(errors[1], "");
}

TEST(GlooFailure, AbortReachesTheOthersWithItsReason) {
  const auto errors = run_gloo({.world = 3, .timeout = 60s}, [](TestRank& rank) {
    // Rank 0 waits for rank 1, which works on and on: only the news can end its wait.
    const std::vector<i64> members = {0, 1};
    const auto pair = rank.rank == 2 ? nullptr : make_group(rank, "pair", members, 1);
    const auto group = make_world_group(rank);
    if (rank.rank == 2) {
      rank.await("start", {0});
      rank.communicator.abort("the disk is full");
    } else if (rank.rank == 1) {
      rank.await("end", {0});
    } else {
      rank.reach("start");
      rank.end_together({0}, [&] {
        pair->all_reduce(rank.stream(), values(rank, 5000, 0), ReduceOp::sum, "alone").join();
      });
    }
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 0, group pair[0,1]: all_reduce \"alone\""));
  EXPECT_THAT(errors[0], HasSubstr("rank 2 failed: the disk is full"));
  EXPECT_EQ(errors[1], "");
  EXPECT_EQ(errors[2], "");
}

TEST(GlooFailure, SizesThatDiffer) {
  for (const i64 n : {100, 5000, 1 << 20}) {
    const auto errors = run_gloo({.world = 3}, [n](TestRank& rank) {
      const auto group = make_world_group(rank);
      const i64 mine = rank.rank == 1 ? n + 1 : n;
      group->all_reduce(rank.stream(), values(rank, mine, 0), ReduceOp::sum, "mlp").join();
    });
    for (const std::string& error : errors) {
      EXPECT_THAT(error, HasSubstr("group all[0,1,2]: all_reduce \"mlp\""));
      EXPECT_THAT(error, HasSubstr(std::to_string(4 * n) + " bytes"));
      EXPECT_THAT(error, HasSubstr(std::to_string(4 * n + 4) + " bytes"));
    }
  }
}

TEST(GlooFailure, NamesKindsAndTypesThatDiffer) {
  for (const int difference : {0, 1, 2, 3}) {
    const std::vector<std::string> sides[] = {
        {"\"a\"", "\"b\""}, {"all_reduce", "broadcast"}, {"sum", "max"}, {"fp32", "i32"}};
    const auto errors = run_gloo({.world = 2}, [difference](TestRank& rank) {
      const auto group = make_world_group(rank);
      const bool other = rank.rank == 1;
      const DType dtype = other && difference == 3 ? DType::i32 : DType::fp32;
      const Tensor tensor = filled(rank.device, 10, dtype, [](i64) { return 1; });
      const char* name = other && difference == 0 ? "b" : "a";
      if (other && difference == 1) {
        group->broadcast(rank.stream(), tensor, 0, name).join();
      } else {
        const bool max = other && difference == 2;
        group->all_reduce(rank.stream(), tensor, max ? ReduceOp::max : ReduceOp::sum, name).join();
      }
    });
    for (const std::string& error : errors) {
      EXPECT_THAT(error, HasSubstr("group all[0,1]"));
      for (const std::string& side : sides[difference]) EXPECT_THAT(error, HasSubstr(side));
    }
  }
}

TEST(GlooFailure, SendAndReceiveThatDiffer) {
  const auto errors = run_gloo({.world = 2}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    const Tensor tensor = values(rank, 5000 + rank.rank, 0);
    const ProcessGroup::Part part{1 - group->index(), tensor};
    if (rank.rank == 0) group->exchange(rank.stream(), {part}, {}, "to next").join();
    if (rank.rank == 1) group->exchange(rank.stream(), {}, {part}, "to next").join();
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("group all[0,1]: exchange \"to next\""));
    EXPECT_THAT(error, HasSubstr("20000 bytes"));
    EXPECT_THAT(error, HasSubstr("20004 bytes"));
  }
}

TEST(GlooFailure, PartsForItselfThatDiffer) {
  for (const bool sends_only : {true, false}) {
    const auto errors = run_gloo({.world = 2}, [sends_only](TestRank& rank) {
      const auto group = make_world_group(rank);
      if (rank.rank == 1) return rank.await("end", {0});
      rank.end_together({0}, [&] {
        const ProcessGroup::Part sent{0, values(rank, 5000, 0)}, other{0, values(rank, 5001, 0)};
        std::vector<ProcessGroup::Part> received;
        if (!sends_only) received.push_back(other);
        group->exchange(rank.stream(), {sent}, received, "rows").join();
      });
    });
    EXPECT_THAT(errors[0],
                HasSubstr(sends_only ? "rank 0, group all[0,1]: exchange \"rows\": 1 sends to "
                                       "itself, 0 receives"
                                     : "rank 0, group all[0,1]: exchange \"rows\": 20000 bytes "
                                       "fp32 sent to itself, 20004 bytes fp32 expected"));
  }
}

TEST(GlooFailure, RankThatEndsAtOnce) {
  const auto errors = run_gloo({.world = 2, .timeout = 500ms}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    if (rank.rank == 0) group->barrier(rank.stream(), "start");
  });
  EXPECT_THAT(errors[0],
              AnyOf(HasSubstr("rank 1 failed: its connection closed"),
                    HasSubstr("barrier \"start\" #0: timed out")));
  EXPECT_EQ(errors[1], "");
}

}  // namespace gloo_test
}  // namespace tessera::testing
