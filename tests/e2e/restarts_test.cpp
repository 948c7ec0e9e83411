// tessera train --restarts: a run that fails goes on from what it has saved, and knows when not to.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "train_support.hpp"

namespace tessera::testing {
namespace restarts_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class RestartedRun : public ::testing::Test {
 protected:
  std::vector<std::string> command(int restarts,
                                   int steps,
                                   const std::string& out,
                                   std::vector<std::string> more = {}) const {
    std::vector<std::string> words = run_.command(TinyRun::steps(steps, out, std::move(more)));
    words.insert(words.end(), {"--restarts", std::to_string(restarts)});
    return words;
  }
  // Kills a rank once the checkpoint of this step or a later one is there.
  void kill_after(const std::string& out, int step, int rank) const {
    while (newest(out) < step) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const pid_t pid = rank_process(run_.mark(), rank);
    ASSERT_GT(pid, 0);
    kill(pid, SIGKILL);
  }
  int newest(const std::string& out) const {
    int newest = 0;
    if (!fs::exists(run_.at(out) + "/checkpoints")) return 0;
    for (const std::string& name : run_.checkpoints(out)) {
      newest = std::max(newest, std::stoi(name.substr(5)));
    }
    return newest;
  }
  std::vector<std::string> undisturbed(int steps, int tensor = 1) const {
    const std::string out = "whole" + std::to_string(tensor);
    const std::vector<std::string> sets = {"checkpoint.save=false",
                                           "parallel.tensor=" + std::to_string(tensor)};
    EXPECT_EQ(run_.train(TinyRun::steps(steps, out, sets)).exit_code, 0);
    return run_.metrics(out);
  }
  const TinyRun run_;
};

TEST_F(RestartedRun, AKilledRankChangesNoNumber) {
  for (const int ranks : {1, 2}) {
    const std::vector<std::string> whole = undisturbed(60, ranks);
    ASSERT_THAT(whole, Not(IsEmpty()));
    const std::string out = "run" + std::to_string(ranks);
    Process run(
        command(
            3, 60, out, {"checkpoint.every_steps=5", "parallel.tensor=" + std::to_string(ranks)}),
        run_.options());
    kill_after(out, 10, ranks - 1);
    ASSERT_TRUE(run.shows("restart 1 of 3")) << run.err();
    kill_after(out, 30, 0);
    EXPECT_THAT(run.wait(),
                Exits(0,
                      "was killed by signal 9 (Killed)\nrestart 1 of 3: the run failed "
                      "in step ",
                      "; all ranks start again from " + run_.at(out) + "/checkpoints/",
                      "restart 2 of 3: "));
    EXPECT_THAT(run_.metrics(out), ElementsAreArray(whole));
  }
  EXPECT_THAT(run_.survivors(), IsEmpty());
}

TEST_F(RestartedRun, TheSameFailureTwiceInTheSameStepEndsIt) {
  const ProcessResult result = run_process(command(5,
                                                   200,
                                                   "run",
                                                   {broken_plugins(),
                                                    "model.head.norm.type=test_broken_norm",
                                                    "model.head.norm.how=throw",
                                                    "parallel.data=2"}),
                                           run_.options());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("restart 1 of 5: the run failed in step "),
                    HasSubstr("; all ranks start as the first time: no checkpoint of this run"),
                    HasSubstr("not started again: the same failure came before, in step "),
                    Not(HasSubstr("restart 2 of 5"))));
  EXPECT_THAT(result.last_error(), HasSubstr("in module/test_broken_norm")) << "the cause is last";
}

TEST_F(RestartedRun, NoMoreOftenThanAsked) {
  Process run(command(1, 1000000, "run", {"checkpoint.every_steps=5", "parallel.data=2"}),
              run_.options());
  kill_after("run", 5, 0);
  ASSERT_TRUE(run.shows("restart 1 of 1")) << run.err();
  kill_after("run", newest("run") + 10, 1);
  const ProcessResult result = run.wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("not started again: 1 of 1 restarts are used\n"));
  EXPECT_EQ(result.last_error(), "rank 1 was killed by signal 9 (Killed)");
}

TEST_F(RestartedRun, AStopIsNoFailure) {
  Process run(command(5, 1000000, "run", {"parallel.data=2"}), run_.options());
  ASSERT_TRUE(run.shows("step       3/")) << run.err();
  run.send(SIGTERM);
  EXPECT_THAT(run.wait(), Exits(3, Not(HasSubstr("restart"))));
}

TEST_F(RestartedRun, AnErrorOfTheConfigurationIsNotTriedAgain) {
  ASSERT_EQ(run_.train(TinyRun::steps(3, "run")).exit_code, 0);
  // Found by the ranks, which read the checkpoint.
  EXPECT_THAT(run_process(command(5, 6, "run", {"run.seed=12", "parallel.data=2"}), run_.options()),
              Exits(2, Not(HasSubstr("started again")), Not(HasSubstr("restart "))));
}

TEST_F(RestartedRun, ItGoesOnFromItsOwnCheckpointsWhereverItBegan) {
  const std::vector<std::string> whole = undisturbed(60);
  Process run(command(2, 60, "run", {"checkpoint.every_steps=5", "checkpoint.resume=none"}),
              run_.options());
  kill_after("run", 10, 0);
  const ProcessResult result = run.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(run_.metrics("run"), ElementsAreArray(whole));
}

TEST_F(RestartedRun, WhatCannotWorkIsRefused) {
  EXPECT_THAT(run_process(command(2, 5, "run", {"checkpoint.save=false"}), run_.options()),
              EndsOn(2, "nothing to start from: checkpoint.save = false"));

  ProcessOptions torchrun = run_.options();
  for (const auto& [name, value] : {std::pair{"RANK", "0"},
                                    {"LOCAL_RANK", "0"},
                                    {"WORLD_SIZE", "2"},
                                    {"LOCAL_WORLD_SIZE", "2"},
                                    {"MASTER_ADDR", "127.0.0.1"},
                                    {"MASTER_PORT", "29871"},
                                    {"TORCHELASTIC_RUN_ID", "x"}}) {
    torchrun.environment[name] = value;
  }
  EXPECT_THAT(run_process(command(2, 5, "run", {"parallel.data=2"}), torchrun),
              EndsOn(2,
                     "--restarts is for ranks that tessera starts itself; torchrun",
                     EndsWith("and leave --restarts out")));
}

}  // namespace restarts_test
}  // namespace tessera::testing
