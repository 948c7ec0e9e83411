// Saving while training goes on.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <limits>
#include <thread>

#include "tests/unit/checkpoint/world_support.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace save_later_test {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void expect_saved(const Layout& layout, const std::string& folder, i64 step, i64 salt) {
  run_ranks(layout, folder, [&](CheckpointRank& rank) {
    rank.spoil();
    const auto loaded = rank.checkpoints().load(step_folder(folder, step).string(), rank.tensors);
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->info.step, step);
    EXPECT_EQ(rank.wrong(salt), "");
  });
}

TEST(SaveLater, HoldsTheValuesOfTheSnapshot) {
  for (const Layout& layout : {world_of(1, 1), world_of(2, 1), world_of(2, 2)}) {
    const TestFolder folder;
    run_ranks(layout, folder.path(), [](CheckpointRank& rank) {
      Checkpoints checkpoints(rank.arguments);
      EXPECT_FALSE(checkpoints.saved_later(true)) << "nothing is under way";
      for (const i64 step : {5, 10}) {
        rank.fill(step);
        checkpoints.saved_later(true);
        checkpoints.save_later(info_at(step), rank.tensors);
        rank.fill(99);  // the next update
      }
      const auto saved = checkpoints.saved_later(true);
      ASSERT_TRUE(saved);
      EXPECT_EQ(saved->step, 10);
      EXPECT_GT(saved->seconds, 0);
      EXPECT_FALSE(checkpoints.saved_later(true)) << "it is told once";
      EXPECT_EQ(rank.wrong(99), "");
    });
    EXPECT_THAT(complete_steps(folder.path()),
                ElementsAre(folder.at("step-10"), folder.at("step-5")));
    expect_saved(world_of(1, 1), folder.path(), 5, 5);
    expect_saved(layout, folder.path(), 10, 10);
  }
}

// Shares end within rows, and a copy holds only them.
TEST(SaveLater, SharesOfReplicas) {
  const TestFolder folder;
  run_ranks(world_of(2, 3), folder.path(), [](CheckpointRank& rank) {
    rank.keep_share();
    rank.fill(7);
    Checkpoints checkpoints(rank.arguments);
    checkpoints.save_later(info_at(7), rank.tensors);
    rank.fill(8);
    checkpoints.saved_later(true);
  });
  expect_saved(world_of(1, 2), folder.path(), 7, 7);
}

TEST(SaveLater, ItIsToldWithoutWaiting) {
  const TestFolder folder;
  run_ranks(world_of(1, 2), folder.path(), [](CheckpointRank& rank) {
    rank.fill(5);
    Checkpoints checkpoints(rank.arguments);
    checkpoints.save_later(info_at(5), rank.tensors);
    const auto end = std::chrono::steady_clock::now() + 20s;
    auto saved = checkpoints.saved_later(false);
    while (!saved && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(1ms);
      saved = checkpoints.saved_later(false);
    }
    ASSERT_TRUE(saved);
    EXPECT_EQ(saved->folder, step_folder(rank.arguments.folder, 5));
  });
}

TEST(SaveLater, AFailureIsThrownOnAllRanks) {
  const TestFolder folder;
  save_step(world_of(2, 1), folder.path(), 5);
  const auto errors = on_ranks(world_of(2, 1), folder.path(), [](CheckpointRank& rank) {
    rank.fill(10);
    const Tensor& last = rank.tensors.back().tensor;
    std::vector<double> values(static_cast<std::size_t>(last.elements()), 1.0);
    if (!rank.root()) values.back() = std::numeric_limits<double>::quiet_NaN();
    rank.arguments.device->write(last, values.data());
    Checkpoints checkpoints(rank.arguments);
    checkpoints.save_later(info_at(10), rank.tensors);
    checkpoints.saved_later(true);
  });
  EXPECT_THAT(errors,
              Each(AllOf(HasSubstr("saving step 10 failed, older checkpoints are whole: "),
                         HasSubstr("\"qkv/moment\" has values that are not finite"))));
  EXPECT_THAT(complete_steps(folder.path()), ElementsAre(folder.at("step-5")));
  EXPECT_FALSE(std::filesystem::exists(folder.at("step-10.run.tmp")));
}

// A disk that is full for a while.
TEST(SaveLater, AFailureIsTriedAgainWithTheSameValues) {
  const TestFolder folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{300, before.rlim_max};
  ::testing::internal::CaptureStderr();
  run_ranks(world_of(1, 1), folder.path(), [&](CheckpointRank& rank) {
    rank.arguments.failures = 5;
    rank.fill(5);
    Checkpoints checkpoints(rank.arguments);
    checkpoints.claim();
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    checkpoints.save_later(info_at(5), rank.tensors);
    rank.fill(6);
    std::this_thread::sleep_for(1s);  // the first attempt fails
    EXPECT_FALSE(checkpoints.saved_later(false));
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_TRUE(checkpoints.saved_later(true));
  });
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("File too large"),
                    HasSubstr("trying again in a moment, 1 of checkpoint.failures = 5")));
  expect_saved(world_of(1, 1), folder.path(), 5, 5);
}

// Observers are not made for several threads.
TEST(SaveLater, BeforeTheCommitTheRanksThreadIsAsked) {
  const TestFolder folder;
  const std::string index = folder.at("step-5.run.tmp/index.json");
  run_ranks(world_of(1, 2), folder.path(), [&](CheckpointRank& rank) {
    rank.arguments.failures = 2;
    rank.fill(5);
    Checkpoints checkpoints(rank.arguments);
    int calls = 0;
    checkpoints.save_later(info_at(5), rank.tensors, [&, self = std::this_thread::get_id()] {
      EXPECT_EQ(std::this_thread::get_id(), self);
      EXPECT_FALSE(std::filesystem::exists(index));
      require(++calls > 1, "the first time it fails");
    });
    EXPECT_TRUE(checkpoints.saved_later(true));
    EXPECT_EQ(calls, rank.root() ? 2 : 0);
  });
  expect_saved(world_of(1, 1), folder.path(), 5, 5);
}

// A rank that fails does not wait for a save that the others never join.
TEST(SaveLater, ARunThatEndsDoesNotWait) {
  const TestFolder folder;
  const auto begin = std::chrono::steady_clock::now();
  run_ranks(world_of(1, 2), folder.path(), [](CheckpointRank& rank) {
    rank.fill(5);
    Checkpoints checkpoints(rank.arguments);
    checkpoints.claim();
    if (rank.root()) checkpoints.save_later(info_at(5), rank.tensors);
    std::this_thread::sleep_for(50ms);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s) << "the timeout is 20 s";
  EXPECT_TRUE(complete_steps(folder.path()).empty());
}

}  // namespace save_later_test
}  // namespace tessera
