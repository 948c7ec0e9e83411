// Ranks of several hosts, played by processes of one: "shm" within, "gloo" between.
#include "kernel/comm/per_host.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "group_conformance_support.hpp"
#include "tessera/device/host_comm.hpp"
#include "tessera/error.hpp"
#include "values_support.hpp"

namespace tessera::testing {
namespace per_host_test {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

// Neighbours are not next to each other, so that local and global numbers differ everywhere.
const std::vector<std::string> kTwoHosts = {"a", "b", "a", "b"};

RankOptions two_hosts(std::chrono::milliseconds timeout = 60s) {
  return {.world = 4, .timeout = timeout, .hosts = kTwoHosts};
}

// Both groups of a rank: that on its host and that across.
struct Pairs {
  std::unique_ptr<ProcessGroup> within, across;
  explicit Pairs(TestRank& rank)
      : within(make_group(rank, "tp", {rank.rank % 2, rank.rank % 2 + 2}, 1 + int(rank.rank % 2))),
        across(make_group(
            rank, "dp", {rank.rank / 2 * 2, rank.rank / 2 * 2 + 1}, 3 + int(rank.rank / 2))) {}
};

Tensor ones(TestRank& rank, i64 elements) {
  return filled(rank.device, elements, DType::fp32, [](i64) { return 1; });
}

TEST(PerHost, ConformsToPlainLoops) {
  EXPECT_THAT(run_per_host(two_hosts(), check_everything), Each(IsEmpty()));
}

// Every mix of collectives on the host, across and of all; each rank waits in an order of its own.
TEST(PerHost, RandomSequencesOverAllKindsOfGroups) {
  const auto errors = run_per_host(two_hosts(), [](TestRank& rank) {
    for (u64 seed = 1; seed <= 4; ++seed) {
      check_random_sequences(rank, seed, {{0, 2}, {1, 3}, {0, 1}, {2, 3}, {3, 1, 2, 0}, {1, 2, 3}});
    }
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

TEST(PerHost, DeferredStreamsAndReplay) {
  RankOptions options = two_hosts();
  options.deferred_seed = 5;
  const auto errors = run_per_host(options, [](TestRank& rank) {
    check_random_sequences(rank, 9);
    check_graph_replay(rank);
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

TEST(PerHost, UnevenHosts) {
  const RankOptions options{.world = 4, .timeout = 60s, .hosts = {"a", "b", "a", "a"}};
  const auto errors = run_per_host(options, [](TestRank& rank) {
    check_random_sequences(rank, 3, {{0, 2, 3}, {3, 0}, {0, 1, 2, 3}, {1, 2}});
    const bool alone = rank.rank == 1;
    require((rank.communicator.memory() == nullptr) == alone, "memory of a host's ranks");
    require(rank.communicator.name() == (alone ? "gloo" : "shm within hosts, gloo between"),
            "name {}",
            rank.communicator.name());
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

// Rank 0 waits for the other host, which waits for rank 2, which waits for rank 0: to come out, a
// rank that waits for another host must go on with what its neighbours need.
TEST(PerHost, NeighboursAreServedWhileARankWaitsForAnotherHost) {
  const auto errors = run_per_host(two_hosts(15s), [](TestRank& rank) {
    const Pairs pairs(rank);
    const auto all = make_world_group(rank);
    for (int round = 0; round < 20; ++round) {
      const Tensor local = ones(rank, 5000), whole = ones(rank, 3000);
      const auto reduce = [&](ProcessGroup& group, const Tensor& tensor) {
        return group.all_reduce(rank.stream(), tensor, ReduceOp::sum, "crossed");
      };
      Work first = reduce(*pairs.within, local);
      if (rank.rank >= 2) first.join();
      Work second = reduce(*all, whole);
      second.join();
      first.join();
      expect_values(
          local, [](i64) { return 2; }, "within");
      expect_values(
          whole, [](i64) { return 4; }, "of all");
    }
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

TEST(PerHost, CountersAreThoseOfEachGroup) {
  const auto errors = run_per_host(two_hosts(), [](TestRank& rank) {
    const Pairs pairs(rank);
    for (int i = 0; i < 3; ++i) {
      pairs.within->all_reduce(rank.stream(), ones(rank, 100), ReduceOp::sum, "within").join();
    }
    pairs.across->all_reduce(rank.stream(), ones(rank, 50), ReduceOp::sum, "across").join();
    const auto within = pairs.within->counters()[CollectiveKind::all_reduce];
    const auto across = pairs.across->counters()[CollectiveKind::all_reduce];
    require(within.calls == 3 && within.bytes == 1200, "within: {}", within.bytes);
    require(across.calls == 1 && across.bytes == 200, "across: {}", across.bytes);
    require(pairs.across->capturable() && pairs.within->capturable(), "not capturable");
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

TEST(PerHostFailure, SizesThatDifferWithinAHost) {
  const auto errors = run_per_host(two_hosts(10s), [](TestRank& rank) {
    const Pairs pairs(rank);
    if (rank.rank % 2 == 0) return;
    pairs.within->all_reduce(rank.stream(), ones(rank, 5000 + rank.rank), ReduceOp::sum, "mlp")
        .join();
  });
  EXPECT_EQ(errors[0], "");
  for (const std::size_t rank : {1U, 3U}) {
    EXPECT_THAT(errors[rank], HasSubstr("rank " + std::to_string(rank) + ", group tp[1,3]"));
    EXPECT_THAT(errors[rank], HasSubstr("all_reduce \"mlp\""));
    EXPECT_THAT(errors[rank], HasSubstr("of 20004 bytes"));
    EXPECT_THAT(errors[rank], HasSubstr("of 20012 bytes"));
    EXPECT_THAT(errors[rank], AnyOf(HasSubstr("rank 1 called"), HasSubstr("rank 3 called")));
  }
}

TEST(PerHostFailure, SizesThatDifferBetweenHosts) {
  const auto errors = run_per_host(two_hosts(10s), [](TestRank& rank) {
    const Pairs pairs(rank);
    if (rank.rank < 2) return rank.await("end", {2, 3});
    rank.end_together({2, 3}, [&] {
      pairs.across->all_reduce(rank.stream(), ones(rank, 5000 + rank.rank), ReduceOp::sum, "mlp")
          .join();
    });
  });
  for (const std::size_t rank : {2U, 3U}) {
    EXPECT_THAT(errors[rank], HasSubstr("rank " + std::to_string(rank) + ", group dp[2,3]"));
    EXPECT_THAT(errors[rank], HasSubstr("all_reduce \"mlp\""));
    EXPECT_THAT(errors[rank], HasSubstr("20008 bytes"));
    EXPECT_THAT(errors[rank], HasSubstr("20012 bytes"));
  }
}

TEST(PerHostFailure, ExchangeThatDiffersNamesTheRunsRanks) {
  const auto errors = run_per_host(two_hosts(10s), [](TestRank& rank) {
    const Pairs pairs(rank);
    const ProcessGroup::Part part{1 - pairs.within->index(), ones(rank, 5000 + rank.rank)};
    if (rank.rank == 1) pairs.within->exchange(rank.stream(), {part}, {}, "to next").join();
    if (rank.rank == 3) pairs.within->exchange(rank.stream(), {}, {part}, "to next").join();
  });
  EXPECT_THAT(errors[3], HasSubstr("group tp[1,3]: exchange \"to next\""));
  EXPECT_THAT(errors[3], HasSubstr("rank 1 sends"));
  EXPECT_THAT(errors[3], HasSubstr("but rank 3 expects"));
  EXPECT_THAT(errors[1], HasSubstr("rank 1, group tp[1,3]"));
}

TEST(PerHostFailure, AbortReachesNeighboursAndOtherHosts) {
  const auto errors = run_per_host(two_hosts(60s), [](TestRank& rank) {
    const Pairs pairs(rank);
    const auto all = make_world_group(rank);
    if (rank.rank == 1) {
      rank.await("start", {0, 2, 3});
      rank.communicator.abort("the disk is full");
      return rank.await("end", {0, 2, 3});
    }
    rank.reach("start");
    rank.end_together({0, 2, 3}, [&] {
      ProcessGroup& group = rank.rank == 3 ? *pairs.within : *all;
      group.all_reduce(rank.stream(), ones(rank, 5000), ReduceOp::sum, "alone").join();
    });
  });
  EXPECT_EQ(errors[1], "");
  for (const std::size_t rank : {0U, 2U}) {
    EXPECT_THAT(errors[rank], HasSubstr("rank " + std::to_string(rank) + ", group all[0,1,2,3]"));
    EXPECT_THAT(errors[rank], HasSubstr("rank 1 failed: the disk is full"));
  }
  EXPECT_THAT(errors[3], HasSubstr("rank 3, group tp[1,3]: all_reduce \"alone\""));
  EXPECT_THAT(errors[3], HasSubstr("rank 1 failed: the disk is full"));
}

// While a rank waits for another host it learns from a neighbour that it will wait in vain.
TEST(PerHostFailure, ANeighboursMistakeEndsTheWaitForAnotherHost) {
  const auto errors = run_per_host(two_hosts(60s), [](TestRank& rank) {
    const Pairs pairs(rank);
    if (rank.rank % 2 != 0) return rank.await("end", {0, 2});
    rank.end_together({0, 2}, [&] {
      if (rank.rank == 2) rank.await("start", {0});
      Work work = pairs.within->all_reduce(
          rank.stream(), ones(rank, 5000 + rank.rank), ReduceOp::sum, "mlp");
      rank.reach("start");
      if (rank.rank == 0)
        pairs.across->all_reduce(rank.stream(), ones(rank, 10), ReduceOp::sum, "late").join();
      work.join();
    });
  });
  for (const std::size_t rank : {0U, 2U}) {
    EXPECT_THAT(errors[rank], HasSubstr("group tp[0,2]: all_reduce \"mlp\""));
    EXPECT_THAT(errors[rank], HasSubstr("all members must call the same"));
  }
}

TEST(PerHostFailure, TimeoutsWithinAndBetweenNameWhoIsMissing) {
  const auto errors = run_per_host(two_hosts(1s), [](TestRank& rank) {
    const Pairs pairs(rank);
    if (rank.rank == 1) return rank.await("end", {0, 3});
    if (rank.rank == 2) return;
    rank.end_together({0, 3}, [&] {
      ProcessGroup& group = rank.rank == 3 ? *pairs.within : *pairs.across;
      group.all_reduce(rank.stream(), ones(rank, 5000), ReduceOp::sum, "late").join();
    });
  });
  EXPECT_THAT(errors[3], HasSubstr("rank 3, group tp[1,3]: all_reduce \"late\""));
  EXPECT_THAT(errors[3], HasSubstr("rank 1 has not come"));
  EXPECT_THAT(errors[0], HasSubstr("rank 0, group dp[0,1]: all_reduce \"late\""));
}

TEST(PerHostFailure, KilledRankTakesBothHostsDown) {
  const auto errors = run_per_host(two_hosts(60s), [](TestRank& rank) {
    const Pairs pairs(rank);
    const auto all = make_world_group(rank);
    if (rank.rank == 3) {
      rank.await("start", {0, 1, 2});
      kill(getpid(), SIGKILL);
    }
    rank.reach("start");
    ProcessGroup& group = rank.rank == 1 ? *pairs.within : *all;
    group.all_reduce(rank.stream(), ones(rank, 5000), ReduceOp::sum, "after").join();
  });
  EXPECT_EQ(errors[3], "killed by signal 9");
  for (const std::size_t rank : {0U, 1U, 2U}) {
    EXPECT_THAT(errors[rank], HasSubstr("rank 3 failed: it"));
    EXPECT_THAT(errors[rank], HasSubstr("all_reduce \"after\""));
  }
}

}  // namespace per_host_test
}  // namespace tessera::testing
