// Groups whose members are on several hosts, played by processes of one: what goes to a neighbour
// goes by "shm", what goes to another host by "gloo", in one collective.
#include "kernel/comm/spanning_group.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "group_conformance_support.hpp"
#include "tessera/error.hpp"
#include "values_support.hpp"

namespace tessera::testing {
namespace spanning_group_test {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

// In a group in this order, members 0 and 3 share a host, and 1 and 2.
const std::vector<std::string> kHosts = {"a", "b", "a", "b"};
const std::vector<i64> kMembers = {3, 2, 0, 1};

RankOptions two_hosts(std::chrono::milliseconds timeout = 60s) {
  return {.world = 4, .timeout = timeout, .hosts = kHosts};
}

bool neighbours(i64 rank, i64 other) { return rank % 2 == other % 2; }

// Elements that go from one rank to another; none for some pairs.
i64 rows_of(i64 from, i64 to) { return (from * 7 + to * 3) % 4 * 1100; }

// What a member of a group over all ranks sends to and receives from all, itself included.
struct Parts {
  std::vector<ProcessGroup::Part> sends, receives;
  explicit Parts(TestRank& rank, const ProcessGroup& group) {
    for (int member = 0; member < group.size(); ++member) {
      const i64 peer = group.members()[static_cast<std::size_t>(member)];
      sends.push_back(
          {member, filled(rank.device, rows_of(rank.rank, peer), DType::fp32, [&](i64 i) {
             return random_value(rank.rank, i, static_cast<u64>(peer));
           })});
      receives.push_back(
          {member,
           filled(rank.device, rows_of(peer, rank.rank), DType::fp32, [](i64) { return 7; })});
    }
  }
  void check(const TestRank& rank, const ProcessGroup& group) const {
    for (const ProcessGroup::Part& part : receives) {
      const i64 peer = group.members()[static_cast<std::size_t>(part.peer)];
      expect_values(
          part.tensor,
          [&](i64 i) { return random_value(peer, i, static_cast<u64>(rank.rank)); },
          "rows");
    }
  }
};

// --- what goes where ---

// What one rank has posted to what joins the hosts.
struct Log {
  std::vector<CollectiveKind> kinds;
  std::vector<i64> sent_to, received_from;  // by rank
  i64 bytes = 0;                            // sent
};

class LoggedGroup final : public HostGroup {
 public:
  LoggedGroup(const GroupSpec& spec, Device& device, std::unique_ptr<GroupBackend> of, Log& log)
      : HostGroup(device, spec, spec.rank_of(spec.index)), of_(std::move(of)), log_(log) {}
  void do_post(const Posted& posted) override {
    const Collective& collective = posted.collective;
    log_.kinds.push_back(collective.kind);
    for (const Transfer& send : collective.sends) {
      log_.sent_to.push_back(spec().rank_of(send.peer));
      log_.bytes += send.tensor.elements() * dtype_size(send.tensor.dtype);
    }
    for (const Transfer& receive : collective.receives) {
      log_.received_from.push_back(spec().rank_of(receive.peer));
    }
    tickets_[posted.ticket] = of_->host_group()->post(collective);
  }
  void do_finish(Ticket ticket, Until until) override {
    of_->host_group()->finish(tickets_[ticket], until);
  }

 private:
  std::map<Ticket, Ticket> tickets_;
  std::unique_ptr<GroupBackend> of_;
  Log& log_;
};

class LoggedCommunicator final : public Communicator {
 public:
  LoggedCommunicator(std::shared_ptr<Communicator> of, std::shared_ptr<Log> log)
      : of_(std::move(of)), log_(std::move(log)) {}
  std::string_view do_name() const override { return of_->name(); }
  std::unique_ptr<GroupBackend> do_create_group(const GroupSpec& spec, Device& device) override {
    return std::make_unique<LoggedGroup>(spec, device, of_->create_group(spec, device), *log_);
  }
  bool do_progress() override { return of_->progress(); }
  void do_abort(std::string_view reason) noexcept override { of_->abort(reason); }

 private:
  std::shared_ptr<Communicator> of_;
  std::shared_ptr<Log> log_;
};

TEST(SpanningGroup, SendsToNeighboursWithinTheirHost) {
  // Each rank is a process and has a log of its own.
  const auto log = std::make_shared<Log>();
  RankOptions options = two_hosts();
  options.between = [&](std::shared_ptr<Communicator> gloo) {
    return std::make_shared<LoggedCommunicator>(std::move(gloo), log);
  };
  const auto errors = run_per_host(options, [&](TestRank& rank) {
    const auto group = make_group(rank, "all", kMembers, 1);
    const auto bulk = make_group(rank, "all", kMembers, 2, CommLane::bulk);
    const auto only = [&](const std::vector<i64>& ranks, std::string_view what) {
      for (const i64 other : ranks) {
        require(!neighbours(rank.rank, other), "{}: a part for rank {} left the host", what, other);
      }
    };
    const auto logged = [&](std::string_view what, CollectiveKind kind, i64 parts, i64 bytes) {
      require(log->kinds == std::vector{kind}, "{}: {} posts", what, log->kinds.size());
      require(static_cast<i64>(log->sent_to.size()) == parts &&
                  static_cast<i64>(log->received_from.size()) == parts,
              "{}: {} parts sent, {} received",
              what,
              log->sent_to.size(),
              log->received_from.size());
      require(log->bytes == bytes, "{}: {} bytes, expected {}", what, log->bytes, bytes);
      only(log->sent_to, what);
      only(log->received_from, what);
      *log = {};
    };
    i64 rows = 0;
    for (i64 peer = 0; peer < 4; ++peer) {
      if (!neighbours(rank.rank, peer)) rows += rows_of(rank.rank, peer);
    }
    for (const bool exchange : {true, false}) {
      const Parts parts(rank, *group);
      Work work = exchange ? group->exchange(rank.stream(), parts.sends, parts.receives, "rows")
                           : group->all_to_all(rank.stream(), parts.sends, parts.receives, "rows");
      work.wait(rank.stream());
      parts.check(rank, *group);
      logged("rows", exchange ? CollectiveKind::exchange : CollectiveKind::all_to_all, 2, rows * 4);
    }
    const Tensor some = filled(rank.device, 1000, DType::fp32, [](i64) { return 1; });
    const Tensor all = filled(rank.device, 4000, DType::fp32, [](i64) { return 1; });
    group->all_gather(rank.stream(), some, all, "gather").wait(rank.stream());
    logged("gather", CollectiveKind::exchange, 2, 2 * 4000);
    group->reduce_scatter(rank.stream(), all, some, "scatter").wait(rank.stream());
    logged("scatter", CollectiveKind::exchange, 2, 2 * 4000);
    bulk->reduce_scatter(rank.stream(), all, some, "gradients").wait(rank.stream());
    logged("gradients", CollectiveKind::reduce_scatter, 0, 0);
    group->all_reduce(rank.stream(), some, ReduceOp::sum, "sum").wait(rank.stream());
    logged("sum", CollectiveKind::all_reduce, 0, 0);
    // Neighbours only: nothing leaves the host.
    const int here = group->index(), beside = 3 - here;
    group->exchange(rank.stream(), {{beside, some}}, {{beside, all.slice(0, 0, 1000)}}, "beside")
        .wait(rank.stream());
    require(log->kinds.empty(), "an exchange of neighbours left the host");
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

// Sums in the order of the group, whatever the lane: the bits of a plain loop, and of one host.
TEST(SpanningGroup, SumsInGroupOrder) {
  const auto check = [](TestRank& rank) {
    int id = 1;
    for (const CommLane lane : {CommLane::critical, CommLane::bulk}) {
      const auto group = make_group(rank, "all", kMembers, id++, lane);
      for (const i64 n : {i64{1}, i64{300}, i64{70'001}}) {
        const auto value = [&](i64 member, i64 i) {
          return random_value(member, i, static_cast<u64>(n));
        };
        const Tensor terms =
            filled(rank.device, 4 * n, DType::fp32, [&](i64 i) { return value(rank.rank, i); });
        const Tensor sums = filled(rank.device, n, DType::fp32, [](i64) { return 7; });
        for (int again = 0; again < 3; ++again) {
          group->reduce_scatter(rank.stream(), terms, sums, "sums").wait(rank.stream());
          expect_values(
              sums,
              [&](i64 i) {
                float sum = 0;
                for (const i64 member : kMembers) sum += value(member, group->index() * n + i);
                return static_cast<double>(sum);
              },
              "sums");
        }
      }
    }
  };
  EXPECT_THAT(run_per_host(two_hosts(), check), Each(IsEmpty()));
  EXPECT_THAT(run_shm({.world = 4, .timeout = 60s}, check), Each(IsEmpty()));
}

// Neighbours with numbers next to each other: the pair that check_waits_for_one looks at.
TEST(SpanningGroup, ConformsWhereNeighboursFollowEachOther) {
  const RankOptions options{.world = 4, .timeout = 60s, .hosts = {"a", "a", "b", "b"}};
  EXPECT_THAT(run_per_host(options, check_everything), Each(IsEmpty()));
}

// A member without neighbours sends as the others do.
TEST(SpanningGroup, ConformsWhereSomeAreAlone) {
  const RankOptions options{.world = 4, .timeout = 60s, .hosts = {"a", "b", "b", "c"}};
  EXPECT_THAT(run_per_host(options, check_everything), Each(IsEmpty()));
}

// Rows of several microbatches are under way while members of the same group and of others wait.
TEST(SpanningGroup, ManyExchangesUnderWay) {
  RankOptions options = two_hosts();
  for (const u64 seed : {0, 3}) {
    options.deferred_seed = seed;
    const auto errors = run_per_host(options, [](TestRank& rank) {
      const auto group = make_group(rank, "all", kMembers, 1);
      const auto world = make_world_group(rank, 2);
      std::vector<Parts> parts;
      std::vector<Work> works;
      for (int i = 0; i < 40; ++i) {
        const ProcessGroup& of = i % 3 == 0 ? *world : *group;
        const Parts& made = parts.emplace_back(rank, of);
        works.push_back((i % 3 == 0 ? *world : *group)
                            .exchange(rank.stream(), made.sends, made.receives, "rows"));
        // Each rank waits in an order of its own.
        if (i % 4 == rank.rank) works[static_cast<std::size_t>(i / 2)].wait_received(rank.stream());
      }
      for (std::size_t i = works.size(); i-- > 0;) works[i].wait(rank.stream());
      for (int i = 0; i < 40; ++i) {
        parts[static_cast<std::size_t>(i)].check(rank, i % 3 == 0 ? *world : *group);
      }
    });
    EXPECT_THAT(errors, Each(IsEmpty()));
  }
}

// --- failures ---

TEST(SpanningGroupFailure, PartsThatDifferNameBothRanks) {
  for (const i64 wrong : {2, 1}) {  // a neighbour of rank 0, and a rank of the other host
    const auto errors = run_per_host(two_hosts(10s), [&](TestRank& rank) {
      const auto group = make_world_group(rank, 1);
      if (rank.rank != 0 && rank.rank != wrong) return rank.await("end", {0, wrong});
      rank.end_together({0, wrong}, [&] {
        const Tensor tensor =
            filled(rank.device, 5000 + rank.rank, DType::fp32, [](i64) { return 1; });
        if (rank.rank == 0) {
          group->exchange(rank.stream(), {{static_cast<int>(wrong), tensor}}, {}, "rows").join();
        } else {
          group->exchange(rank.stream(), {}, {{0, tensor}}, "rows").join();
        }
      });
    });
    for (const i64 rank : {i64{0}, wrong}) {
      const std::string& error = errors[static_cast<std::size_t>(rank)];
      EXPECT_THAT(error, HasSubstr(fmt::format("rank {}, group all[0,1,2,3]", rank)));
      EXPECT_THAT(error, HasSubstr("exchange"));
      EXPECT_THAT(error, HasSubstr("20000 bytes"));
      EXPECT_THAT(error, HasSubstr(fmt::format("{} bytes", 4 * (5000 + wrong))));
    }
  }
}

// In an exchange among all, each rank that waits is told who died, on either host.
TEST(SpanningGroupFailure, KilledRankIsNamedByAllOthers) {
  const auto errors = run_per_host(two_hosts(60s), [](TestRank& rank) {
    const auto group = make_world_group(rank, 1);
    if (rank.rank == 3) {
      rank.await("start", {0, 1, 2});
      kill(getpid(), SIGKILL);
    }
    rank.reach("start");
    const Parts parts(rank, *group);
    try {
      group->exchange(rank.stream(), parts.sends, parts.receives, "after").join();
    } catch (const Error& error) {
      rank.communicator.abort(error.what());  // as a training does
      throw;
    }
  });
  EXPECT_EQ(errors[3], "killed by signal 9");
  for (const std::size_t rank : {0U, 1U, 2U}) {
    EXPECT_THAT(errors[rank], HasSubstr("rank 3 failed: it"));
    EXPECT_THAT(errors[rank], HasSubstr("exchange \"after\""));
  }
}

TEST(SpanningGroupFailure, TimeoutsNameWhoIsMissing) {
  const auto errors = run_per_host(two_hosts(1s), [](TestRank& rank) {
    const auto group = make_world_group(rank, 1);
    // Ranks 0 and 1 wait for rank 2: a neighbour, and one of the other host.
    if (rank.rank > 1) return rank.await("end", {0, 1});
    rank.end_together({0, 1}, [&] {
      const Tensor tensor = filled(rank.device, 5000, DType::fp32, [](i64) { return 1; });
      group->exchange(rank.stream(), {}, {{2, tensor}}, "late").join();
    });
  });
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_THAT(errors[rank], HasSubstr(fmt::format("rank {}, group all[0,1,2,3]", rank)));
    EXPECT_THAT(errors[rank], HasSubstr("exchange \"late\""));
    EXPECT_THAT(errors[rank], HasSubstr("rank 2 has not sent"));
  }
}

}  // namespace spanning_group_test
}  // namespace tessera::testing
