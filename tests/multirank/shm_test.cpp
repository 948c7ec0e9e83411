// Communicator "shm" between real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "common/error_of.hpp"
#include "common/other_user.hpp"
#include "common/shared_memory.hpp"
#include "group_conformance_support.hpp"
#include "kernel/comm/store.hpp"
#include "kernel/config/config.hpp"
#include "kernel/plugin/host.hpp"
#include "tessera/error.hpp"
#include "values_support.hpp"

namespace tessera::testing {
namespace shm_test {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

class Shm : public ::testing::TestWithParam<i64> {};

TEST_P(Shm, ConformsToPlainLoops) {
  EXPECT_THAT(run_shm({.world = GetParam(), .timeout = 30s}, check_everything), Each(IsEmpty()));
}
TEST_P(Shm, StagesWhatLiesOutsideOfTheSegment) {
  const RankOptions options{.world = GetParam(), .timeout = 30s, .private_memory = true};
  EXPECT_THAT(run_shm(options, check_everything), Each(IsEmpty()));
}
INSTANTIATE_TEST_SUITE_P(Ranks, Shm, ::testing::Values(2, 3), ::testing::PrintToStringParamName());

TEST(ShmGroup, DeferredStreamsAndReplay) {
  EXPECT_THAT(run_shm({.world = 2, .deferred_seed = 5},
                      [](TestRank& rank) {
                        check_random_sequences(rank, 9);
                        check_graph_replay(rank);
                        check_waits_for_one(rank);
                        check_dropped_work(rank);
                      }),
              Each(IsEmpty()));
}

Tensor ones(TestRank& rank, i64 elements) {
  return filled(rank.device, elements, DType::fp32, [](i64) { return 1; });
}

TEST(ShmFailure, KilledRankTakesTheOthersDown) {
  for (const i64 n : {100, 100000}) {
    const auto errors = run_shm({.world = 3, .timeout = 60s}, [n](TestRank& rank) {
      const auto group = make_world_group(rank);
      group->all_reduce(rank.stream(), ones(rank, n), ReduceOp::sum, "first").join();
      if (rank.rank == 1) {
        rank.await("second", {0, 2});
        kill(getpid(), SIGKILL);
      }
      rank.reach("second");
      group->all_reduce(rank.stream(), ones(rank, n), ReduceOp::sum, "second").join();
    });
    EXPECT_EQ(errors[1], "killed by signal 9");
    for (const int rank : {0, 2}) {
      const std::string& error = errors[static_cast<std::size_t>(rank)];
      EXPECT_THAT(error, HasSubstr("rank " + std::to_string(rank) + ", group all[0,1,2]"));
      EXPECT_THAT(error, HasSubstr("all_reduce \"second\""));
      EXPECT_THAT(error, HasSubstr("rank 1 failed: its process"));
    }
  }
}

TEST(ShmFailure, AbortReachesTheOthersWithItsReason) {
  const auto errors = run_shm({.world = 3, .timeout = 60s}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    if (rank.rank == 2) {
      rank.communicator.abort("the disk is full");
      return rank.await("end", {0, 1});
    }
    rank.end_together({0, 1}, [&] {
      group->all_reduce(rank.stream(), ones(rank, 5000), ReduceOp::sum, "alone").join();
    });
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 0, group all[0,1,2]: all_reduce \"alone\""));
  EXPECT_THAT(errors[0], HasSubstr("rank 2 failed: the disk is full"));
  EXPECT_THAT(errors[1], HasSubstr("rank 2 failed: the disk is full"));
  EXPECT_EQ(errors[2], "");
}

TEST(ShmFailure, SizesThatDiffer) {
  const auto errors = run_shm({.world = 2}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    group->all_reduce(rank.stream(), ones(rank, 5000 + rank.rank), ReduceOp::sum, "mlp").join();
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("group all[0,1]: all_reduce \"mlp\""));
    EXPECT_THAT(error, HasSubstr("20000 bytes"));
    EXPECT_THAT(error, HasSubstr("20004 bytes"));
  }
}

TEST(ShmFailure, RankThatDoesNotStart) {
  const auto errors = run_shm({.world = 2, .init_timeout = 2s}, [](TestRank& rank) {
    if (rank.rank == 0) make_world_group(rank);
  });
  EXPECT_THAT(errors[0], HasSubstr("shm/1/group/0.1/1"));
  EXPECT_EQ(errors[1], "");
}

TEST(ShmMemory, LeavesNothingBehindAndIsPrivate) {
  const auto before = shared_memory();
  const auto errors = run_shm({.world = 2}, [](TestRank& rank) {
    const auto group = make_world_group(rank);
    const Tensor tensor = ones(rank, 1 << 20);
    group->all_reduce(rank.stream(), tensor, ReduceOp::sum, "some").join();
    if (rank.rank == 1) kill(getpid(), SIGKILL);
  });
  EXPECT_EQ(errors[1], "killed by signal 9");
  EXPECT_EQ(shared_memory(), before);
}

TEST(ShmMemory, SlabsComeZeroedAndGoBack) {
  const auto errors = run_shm({.world = 2}, [](TestRank& rank) {
    const auto memory = rank.communicator.memory();
    require(memory != nullptr, "no memory");
    for (int round = 0; round < 3; ++round) {
      std::vector<std::pair<char*, i64>> slabs;
      for (const i64 bytes : {i64{4096}, i64{6} << 20, i64{12288}, i64{2} << 20}) {
        char* slab = static_cast<char*>(memory->reserve(bytes));
        require(slab != nullptr, "no slab");
        require(reinterpret_cast<std::uintptr_t>(slab) % 4096 == 0, "not aligned");
        for (i64 i = 0; i < bytes; i += 512) require(slab[i] == 0, "not zero at {}", i);
        for (i64 i = 0; i < bytes; i += 512) slab[i] = 1;
        slabs.emplace_back(slab, bytes);
      }
      for (const auto& [slab, bytes] : slabs) memory->release(slab, bytes);
    }
    require(memory->reserve(i64{1} << 50) == nullptr, "reserved more than there is");
  });
  EXPECT_THAT(errors, Each(IsEmpty()));
}

// Before it connects, a rank cannot know whose a name is; what it is told after may be a segment.
TEST(ShmStrangers, ASocketOfAnotherUserGetsNoSegment) {
  if (!may_be_another_user()) GTEST_SKIP() << "only root can start a process of another user";
  const std::string name = "tessera-shm-test-" + std::to_string(getpid());
  OtherUser stranger = OtherUser::listens(name);
  InProcessStore store;
  store.set("shm/meet/1/0", "12345 " + name);
  CommunicatorArguments arguments;
  arguments.rank = 1;
  arguments.world = 2;
  arguments.store = &store;
  arguments.init_timeout = 5s;
  const PluginHost plugins({TESSERA_BUILD_DIR "/plugins"});
  const Config config = Config::parse("");
  EXPECT_THAT(error_of([&] { plugins.make<Communicator>("shm", *config.node(""), {}, arguments); }),
              HasSubstr("the socket of rank 0 belongs to another user"));
  EXPECT_EQ(stranger.end(), "1 connections, 0 bytes, 0 descriptors");
}

}  // namespace shm_test
}  // namespace tessera::testing
