// Groups of the communicator `nccl`, over an NCCL that is emulated, on GPUs that are
// (tests/cuda_emulated).
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "common/environment.hpp"
#include "emulated_gpus_support.hpp"
#include "group_conformance_support.hpp"
#include "kernel/comm/store.hpp"
#include "kernel/config/tree.hpp"
#include "values_support.hpp"

namespace tessera::testing {
namespace nccl_groups_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kPlanted = "TESSERA_EMULATED_NCCL";

const ConfigNode& empty_node() {
  static const auto kNode = make_node(std::make_shared<ConfigTree>(), "comm");
  return *kNode;
}

std::shared_ptr<Device> gpu_of(i64 rank, i64 world) {
  DeviceArguments arguments;
  arguments.local_rank = static_cast<int>(rank);
  arguments.local_world = static_cast<int>(world);
  arguments.kernels = [](std::string_view device, std::string_view memory) {
    return emulated_gpus().kernels(device, memory);
  };
  return emulated_gpus().make<Device>("cuda_emulated", empty_node(), {}, arguments);
}

// Ranks are threads. Returns each one's error.
std::vector<std::string> run_nccl(const RankOptions& options, const RankBody& body) {
  InProcessStore store;
  std::vector<std::string> errors(static_cast<std::size_t>(options.world));
  std::vector<std::thread> threads;
  const auto run = [&](i64 rank) {
    const std::shared_ptr<Device> device = gpu_of(rank, options.world);
    CommunicatorArguments arguments{
        rank, options.world, &store, options.timeout, options.init_timeout};
    const auto communicator =
        emulated_gpus().make<Communicator>("nccl_emulated", empty_node(), {}, arguments);
    device->set_wait_check([&] { communicator->check(); });
    TestRank test{rank, options.world, *communicator, *device, store};
    try {
      body(test);
    } catch (const std::exception& error) {
      communicator->abort(error.what());
      device->set_wait_check({});
      throw;
    }
    device->set_wait_check({});
  };
  for (i64 rank = 0; rank < options.world; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run(rank);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

struct Case {
  const char* name;
  RankBody body;
};

class NcclGroups : public ::testing::TestWithParam<Case> {};

TEST_P(NcclGroups, ConformToPlainLoops) {
  for (const i64 world : {2, 3}) {
    EXPECT_THAT(run_nccl({.world = world}, GetParam().body), Each(IsEmpty())) << world;
  }
}

INSTANTIATE_TEST_SUITE_P(Bodies,
                         NcclGroups,
                         ::testing::Values(Case{"all_reduce", check_all_reduce},
                                           Case{"all_gather", check_all_gather},
                                           Case{"reduce_scatter", check_reduce_scatter},
                                           Case{"broadcast", check_broadcast},
                                           Case{"exchange", check_exchange},
                                           Case{"same_bits", check_same_bits},
                                           Case{"random_sequences",
                                                [](TestRank& rank) {
                                                  check_random_sequences(rank, 1);
                                                }},
                                           Case{"many_under_way", check_many_under_way},
                                           Case{"dropped_work", check_dropped_work},
                                           Case{"graph_replay", check_graph_replay}),
                         [](const auto& info) { return std::string(info.param.name); });

// --- what goes wrong ---

constexpr std::chrono::milliseconds kTimeout{500};  // of what does not end
constexpr std::chrono::milliseconds kLong{10000};   // of what does

// Sums once, and waits on the host.
void sum_once(TestRank& rank, ProcessGroup& group, const char* name = "grad") {
  const Tensor x = filled(rank.device, 100, DType::fp32, [](i64) { return 1; });
  group.all_reduce(rank.stream(), x, ReduceOp::sum, name).wait(rank.stream());
  rank.device.synchronize(rank.stream());
}

// Rank 1 stays away from `body` until rank 0 is through with it.
void without_rank_1(TestRank& rank, const std::function<void()>& body) {
  if (rank.rank == 1) return rank.await("over", {0});
  try {
    body();
  } catch (...) {
    rank.reach("over");
    throw;
  }
  rank.reach("over");
}

TEST(NcclFailure, ARankThatDoesNotComeIsWaitedForNoLongerThanTheTimeout) {
  const auto errors = run_nccl({.timeout = kTimeout}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    sum_once(rank, *group);
    without_rank_1(rank, [&] {
      try {
        sum_once(rank, *group, "next");
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::peer_silent);
        throw;
      }
    });
  });
  EXPECT_THAT(errors[0],
              AllOf(HasSubstr("rank 0, group all[0,1]: all_reduce \"next\" #1: timed out after "),
                    HasSubstr("s: rank 1 has not come")));
  EXPECT_EQ(errors[1], "");
}

// The time that is counted begins where the stream comes to the collective.
TEST(NcclFailure, WorkBeforeACollectiveIsNotItsTime) {
  constexpr std::chrono::milliseconds kLimit{1500};
  const auto errors = run_nccl({.timeout = kLimit}, [&](TestRank& rank) {
    const auto group = make_world_group(rank);
    rank.device.launch_host(
        rank.stream(), "slow", [&] { std::this_thread::sleep_for(2 * kLimit); });
    sum_once(rank, *group);
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

TEST(NcclFailure, AdviceIsGivenWhereNothingHasPassedYet) {
  const auto errors = run_nccl({.timeout = kTimeout}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    without_rank_1(rank, [&] { sum_once(rank, *group); });
  });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("NCCL_SOCKET_IFNAME"), HasSubstr("NCCL_P2P_DISABLE=1")));
}

TEST(NcclFailure, AGraphWhosePeerDoesNotReplayItEnds) {
  const auto errors = run_nccl({.timeout = kTimeout}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    Device& device = rank.device;
    const Tensor x = filled(device, 100, DType::fp32, [](i64) { return 1; });
    device.begin_capture(device.stream());
    for (const char* name : {"first", "second"}) {
      group->all_reduce(rank.stream(), x, ReduceOp::sum, name).wait(device.stream());
    }
    const auto graph = device.end_capture(device.stream());
    device.replay(*graph, device.stream());
    device.synchronize(device.stream());
    without_rank_1(rank, [&] {
      device.replay(*graph, device.stream());
      device.synchronize(device.stream());
    });
  });
  EXPECT_THAT(errors[0],
              AllOf(HasSubstr("rank 0, group all[0,1]: all_reduce \"first\""),
                    HasSubstr(", one of 2 collectives of a graph: timed out after ")));
  EXPECT_EQ(errors[1], "");
}

// It does not wait for its timeout, which would be an hour.
TEST(NcclFailure, ARankThatFailsEndsTheOthersAtOnce) {
  const auto errors = run_nccl({.timeout = std::chrono::hours(1)}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    sum_once(rank, *group);
    if (rank.rank == 1) fail("rank 1 has had enough");
    sum_once(rank, *group);
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 1 failed: rank 1 has had enough"));
  EXPECT_EQ(errors[1], "rank 1 has had enough");
}

TEST(NcclFailure, WhatNcclSaysOfItsOwnIsTold) {
  const EnvironmentVariable planted(kPlanted, "fail:1:3");
  const auto errors = run_nccl({.timeout = std::chrono::hours(1)}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    for (int i = 0; i < 5; ++i) sum_once(rank, *group);
  });
  EXPECT_THAT(errors[1], HasSubstr("internal error (3): a planted failure"));
  EXPECT_THAT(errors[0], HasSubstr("rank 1 failed: "));
}

TEST(NcclFailure, MembersWhoseCallsDiffer) {
  const auto errors = run_nccl({.timeout = kLong}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    const Tensor x = filled(rank.device, 100, DType::fp32, [](i64) { return 1; });
    const Tensor part = x.slice(0, 0, 100 - 50 * rank.rank);
    group->all_reduce(rank.stream(), part, ReduceOp::sum, "grad").wait(rank.stream());
    rank.device.synchronize(rank.stream());
  });
  EXPECT_THAT(errors, Contains(ContainsRegex("members [01] and [01] differ")));
}

// A peer that the library has lost: its rank goes on, and its GPU does nothing.
TEST(NcclFailure, APeerThatIsLostOnItsGpu) {
  const EnvironmentVariable planted(kPlanted, "lose:1:2");
  const auto errors = run_nccl({.timeout = kTimeout}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    sum_once(rank, *group);
    sum_once(rank, *group, "next");
  });
  EXPECT_THAT(errors, Contains(HasSubstr("all_reduce \"next\" #1: timed out after ")));
  EXPECT_THAT(errors, Each(::testing::Not(IsEmpty())));
}

// NCCL's abort of one communicator waits for its launches, and they wait for another one's.
TEST(NcclFailure, ACollectiveBehindAnotherOnesOnItsLane) {
  const auto errors = run_nccl({.world = 3, .timeout = kTimeout}, [](TestRank& rank) {
    const auto all = make_group(rank, "all", {0, 1, 2}, 0, CommLane::bulk);
    const auto pair = rank.rank < 2 ? make_group(rank, "pair", {0, 1}, 1, CommLane::bulk) : nullptr;
    without_rank_1(rank, [&] {
      const Tensor x = filled(rank.device, 10, DType::fp32, [](i64) { return 1; });
      Work first;
      if (pair) first = pair->all_reduce(rank.stream(), x, ReduceOp::sum, "pair");
      sum_once(rank, *all);
    });
  });
  EXPECT_THAT(errors[0], HasSubstr("timed out after "));
  EXPECT_NE(errors[2], "");
}

TEST(NcclFailure, AGroupThatAMemberDoesNotMake) {
  const auto errors = run_nccl({.init_timeout = kTimeout}, [](TestRank& rank) {
    without_rank_1(rank, [&] { make_world_group(rank); });
  });
  EXPECT_THAT(errors[0],
              AllOf(HasSubstr("group all[0,1]: ncclCommInitRankConfig is not over after 0.5 s: not "
                              "all ranks have called it"),
                    HasSubstr("NCCL_SOCKET_IFNAME")));
}

// A GPU that waits for ever would keep the process, whatever its rank throws.
TEST(NcclFailureDeathTest, AnAbortThatDoesNotReturnEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto rank_stays_away = [] {
    const EnvironmentVariable planted(kPlanted, "stuck_abort");
    run_nccl({.timeout = kTimeout}, [](TestRank& rank) {
      const auto group = make_world_group(rank);
      without_rank_1(rank, [&] { sum_once(rank, *group); });
    });
  };
  EXPECT_EXIT(rank_stays_away(),
              ::testing::KilledBySignal(SIGABRT),
              "NCCL has not ended its communicators 10 s after it was told to: this process ends");
}

TEST(NcclVersions, AreToldInTheFirstLines) {
  EXPECT_THAT(run_nccl({},
                       [](TestRank& rank) {
                         require(rank.communicator.library() == "NCCL 2.28.9", "another library");
                       }),
              Each(IsEmpty()));
}

TEST(NcclVersions, HaveToBeTheSameOnAllRanks) {
  const EnvironmentVariable planted(kPlanted, "mixed");
  const auto errors = run_nccl({.init_timeout = kTimeout}, [](TestRank&) {});
  EXPECT_THAT(errors,
              Contains(ContainsRegex("rank 0 has NCCL 2.2[78].[39], and rank 1 has 2.2[78].[39]: "
                                     "install one version on all")));
}

TEST(NcclSettings, ThatMakeRanksWaitForEverAreRefused) {
  const auto refused = [](const char* name, const char* value) {
    const EnvironmentVariable setting(name, value);
    return run_nccl({}, [](TestRank&) {});
  };
  EXPECT_THAT(refused("CUDA_LAUNCH_BLOCKING", "1"),
              Each(HasSubstr("CUDA_LAUNCH_BLOCKING=1 waits for the end of each kernel")));
  EXPECT_THAT(refused("CUDA_DEVICE_MAX_CONNECTIONS", "1"),
              Each(HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS=1 lets the 5 streams of a rank share 1 "
                             "queue of the GPU")));
  EXPECT_THAT(refused("CUDA_DEVICE_MAX_CONNECTIONS", "32"), Each(IsEmpty()));
  EXPECT_THAT(refused("CUDA_LAUNCH_BLOCKING", "0"), Each(IsEmpty()));
  EXPECT_STREQ(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), "1");
}

// --- mistakes that the emulator must find ---

// Ranks 0 and 1 come to two groups in different orders.
std::vector<std::string> cross(CommLane first, CommLane second, std::chrono::milliseconds timeout) {
  return run_nccl({.world = 3, .timeout = timeout}, [&](TestRank& rank) {
    const auto all = make_group(rank, "all", {0, 1, 2}, 0, first);
    const auto pair = rank.rank < 2 ? make_group(rank, "pair", {0, 1}, 1, second) : nullptr;
    const Tensor x = filled(rank.device, 10, DType::fp32, [](i64) { return 1; });
    const Tensor y = filled(rank.device, 10, DType::fp32, [](i64) { return 1; });
    Work of_pair, of_all;
    if (rank.rank == 1) of_pair = pair->all_reduce(rank.stream(), x, ReduceOp::sum, "pair");
    of_all = all->all_reduce(rank.stream(), y, ReduceOp::sum, "all");
    if (rank.rank == 0) of_pair = pair->all_reduce(rank.stream(), x, ReduceOp::sum, "pair");
    of_pair.wait(rank.stream());
    of_all.wait(rank.stream());
    rank.device.synchronize(rank.stream());
  });
}

TEST(NcclMistakes, GroupsOfOneLaneHaveToBeComeToInOneOrder) {
  EXPECT_THAT(cross(CommLane::bulk, CommLane::exchange, kLong), Each(IsEmpty()));
  EXPECT_THAT(cross(CommLane::bulk, CommLane::bulk, kTimeout), Contains(HasSubstr("timed out")));
}

TEST(NcclMistakes, CollectivesOfAGroupHaveToBeLaunchedInOneOrder) {
  const auto errors = run_nccl({.timeout = kTimeout}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    const Tensor x = filled(rank.device, 10, DType::fp32, [](i64) { return 1; });
    const Tensor y = filled(rank.device, 20, DType::fp32, [](i64) { return 1; });
    for (const Tensor& next : rank.rank == 0 ? std::vector{x, y} : std::vector{y, x}) {
      group->all_reduce(rank.stream(), next, ReduceOp::sum, "x").wait(rank.stream());
    }
    rank.device.synchronize(rank.stream());
  });
  EXPECT_THAT(errors, Contains(ContainsRegex("members [01] and [01] differ")));
}

// Rank 1 comes after rank 0 has read: who does not wait reads what was there before.
TEST(NcclMistakes, AWorkHasToBeWaitedFor) {
  for (const bool waits : {true, false}) {
    const auto errors = run_nccl({}, [&](TestRank& rank) {
      const auto group = make_world_group(rank);
      const Tensor x = filled(rank.device, 10, DType::fp32, [](i64) { return 1; });
      if (rank.rank == 1 && !waits) rank.await("read", {0});
      Work sum = group->all_reduce(rank.stream(), x, ReduceOp::sum, "x");
      if (waits || rank.rank == 1) sum.wait(rank.stream());
      std::vector<float> values(10);
      rank.device.read(x, values.data());
      if (rank.rank == 0) rank.reach("read");
      sum.wait(rank.stream());
      rank.device.synchronize(rank.stream());
      const float expected = waits || rank.rank == 1 ? 2 : 1;
      require(values == std::vector<float>(10, expected), "read {}", values.front());
    });
    EXPECT_THAT(errors, Each(IsEmpty())) << waits;
  }
}

}  // namespace nccl_groups_test
}  // namespace tessera::testing
