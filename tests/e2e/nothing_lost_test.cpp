// What a run keeps without being asked, and what it never takes away.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>

#include "common/metrics_lines.hpp"
#include "tessera/types.hpp"
#include "train_support.hpp"

namespace tessera::testing {
namespace nothing_lost_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class NothingLost : public ::testing::Test {
 protected:
  std::string read(const std::string& name) const { return run_.folder.read(name); }
  std::size_t lines(const std::string& name) const {
    const std::string text = read(name);
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  // The configuration without the tables that say what is shown and kept.
  std::string least() const {
    const std::string text = read("tiny.toml");
    return run_.folder.write("least.toml", text.substr(0, text.find("[checkpoint]")));
  }
  double first_loss(const std::string& out) const {
    return *metric_in(run_.metrics(out).at(0), "loss");
  }
  const TinyRun run_;
};

// --- without a word of the user ---

TEST_F(NothingLost, AConfigurationWithoutObserversAndCheckpointShowsAndKeeps) {
  EXPECT_THAT(run_tessera({"train", least(), "--set", "run.steps=3", "--set", "run.out=run"},
                          run_.options()),
              Prints(0, "step 3/3  loss ", "saved "));
  EXPECT_EQ(run_.metrics("run").size(), 3U);
  EXPECT_THAT(run_.checkpoints("run"), ElementsAre("step-3"));
}

TEST_F(NothingLost, ItIsSavedWhenItIsStopped) {
  Process run({tessera_program(), "train", least(), "--set", "run.steps=1000000"}, run_.options());
  ASSERT_TRUE(run.shows("step       1/")) << run.err();
  run.send(SIGTERM);
  EXPECT_EQ(run.wait().exit_code, 3);
  EXPECT_EQ(run_.checkpoints("runs/tiny").size(), 1U);
}

TEST_F(NothingLost, ARunThatSavesNothingSaysSoFirst) {
  std::vector<std::string> command = {"train", least()};
  for (const char* set : {"run.steps=3",
                          "run.out=run",
                          "checkpoint.save=false",
                          "observers.console.type=none",
                          "observers.metrics.type=none",
                          "observers.report.type=none"}) {
    command.insert(command.end(), {"--set", set});
  }
  const ProcessResult result = run_tessera(command, run_.options());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err,
            "warning: no checkpoint of this run will be saved: checkpoint.save = false; and no "
            "observer shows or keeps its losses\n");
  EXPECT_FALSE(fs::exists(run_.at("run/metrics.jsonl")));
  EXPECT_FALSE(fs::exists(run_.at("run/checkpoints")));
}

// --- a folder that was used before ---

TEST_F(NothingLost, ANewRunKeepsWhatAnEarlierOneWrote) {
  ASSERT_EQ(run_.train(TinyRun::steps(3, "run", {"checkpoint.save=false"})).exit_code, 0);
  const std::string metrics = read("run/metrics.jsonl"), resolved = read("run/resolved.toml");
  EXPECT_THAT(run_.train(TinyRun::steps(2, "run", {"checkpoint.save=false", "lr.peak=2e-3"})),
              Exits(0, "metrics.jsonl was there before: it is kept as metrics.1"));
  EXPECT_EQ(read("run/metrics.1.jsonl"), metrics);
  EXPECT_EQ(read("run/resolved.1.toml"), resolved);
  EXPECT_EQ(run_.metrics("run").size(), 2U);
}

TEST_F(NothingLost, ARunAmongAnEarlierOnesCheckpointsIsRefused) {
  ASSERT_EQ(run_.train(TinyRun::steps(3, "run", {"checkpoint.every_steps=2"})).exit_code, 0);
  const std::string metrics = read("run/metrics.jsonl");
  for (const std::string resume : {"none", "run/checkpoints/step-2"}) {
    for (const std::string ranks : {"1", "2"}) {
      EXPECT_THAT(run_.train(TinyRun::steps(
                      5, "run", {"checkpoint.resume=" + resume, "parallel.data=" + ranks})),
                  Exits(2,
                        "run/checkpoints holds checkpoints of an earlier run (the newest "
                        "is step-3)",
                        "set another run.out"));
    }
  }
  EXPECT_EQ(read("run/metrics.jsonl"), metrics);
  EXPECT_THAT(run_.checkpoints("run"), ElementsAre("step-2", "step-3"));
}

// Also when it would save nothing itself: its numbers would be taken for those of the other.
TEST_F(NothingLost, ARunThatSavesNothingIsRefusedThereToo) {
  ASSERT_EQ(run_.train(TinyRun::steps(3, "run")).exit_code, 0);
  const std::string metrics = read("run/metrics.jsonl");
  const std::vector<std::string> sets = {"checkpoint.save=false", "checkpoint.resume=none"};
  EXPECT_THAT(run_.train(TinyRun::steps(5, "run", sets)),
              Exits(2, "this run's files would mix with its: set another run.out"));
  EXPECT_EQ(read("run/metrics.jsonl"), metrics);
  // Elsewhere there is nothing to mix.
  std::vector<std::string> apart = sets;
  apart.emplace_back("checkpoint.out=run/checkpoints");
  EXPECT_EQ(run_.train(TinyRun::steps(2, "other", apart)).exit_code, 0);
}

TEST_F(NothingLost, CheckpointsElsewhereDoNotMakeItTheSameRun) {
  const std::string common = "checkpoint.out=common";
  ASSERT_EQ(run_.train(TinyRun::steps(3, "first", {common})).exit_code, 0);
  ASSERT_EQ(run_.train(TinyRun::steps(5, "second", {"checkpoint.save=false"})).exit_code, 0);
  const std::string metrics = read("second/metrics.jsonl");
  const ProcessResult result = run_.train(TinyRun::steps(6, "second", {common}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(read("second/metrics.1.jsonl"), metrics);
  EXPECT_EQ(run_.metrics("second").size(), 3U);  // steps 4 to 6
  // The run that owns it goes on in its file.
  ASSERT_EQ(run_.train(TinyRun::steps(8, "second", {common})).exit_code, 0);
  EXPECT_EQ(run_.metrics("second").size(), 5U);
  EXPECT_FALSE(fs::exists(run_.at("second/metrics.2.jsonl")));
}

// Each of them goes on from the same checkpoint.
TEST_F(NothingLost, NumbersThatNoOtherRunWritesAgainAreKept) {
  const std::string unsaved = "checkpoint.save=false";
  ASSERT_EQ(run_.train(TinyRun::steps(3, "run")).exit_code, 0);
  ASSERT_EQ(run_.train(TinyRun::steps(6, "run", {unsaved})).exit_code, 0);
  const std::string metrics = read("run/metrics.jsonl");
  const std::string from = "checkpoint.resume=run/checkpoints/step-3";
  ASSERT_EQ(run_.train(TinyRun::steps(5, "run", {unsaved, from, "lr.peak=1e-2"})).exit_code, 0);
  EXPECT_EQ(read("run/metrics.1.jsonl"), metrics);
  EXPECT_EQ(run_.metrics("run").size(), 5U);
}

TEST_F(NothingLost, ABranchOfAnotherRunHasNumbersOfItsOwn) {
  ASSERT_EQ(run_.train(TinyRun::steps(3, "run")).exit_code, 0);
  ASSERT_EQ(run_.train(TinyRun::steps(2, "branch", {"checkpoint.save=false"})).exit_code, 0);
  ASSERT_EQ(run_.train(TinyRun::steps(5, "branch", {"checkpoint.resume=run"})).exit_code, 0);
  EXPECT_EQ(lines("branch/metrics.1.jsonl"), 2U);
  EXPECT_EQ(run_.metrics("branch").size(), 2U);  // steps 4 and 5
}

// A shell that completes a name ends it with a slash.
TEST_F(NothingLost, ACheckpointNamedWithASlashIsOfItsRun) {
  ASSERT_EQ(run_.train(TinyRun::steps(3, "run")).exit_code, 0);
  ASSERT_EQ(
      run_.train(TinyRun::steps(5, "run", {"checkpoint.resume=run/checkpoints/step-3/"})).exit_code,
      0);
  EXPECT_EQ(run_.metrics("run").size(), 5U);
  EXPECT_FALSE(std::filesystem::exists(run_.at("run/metrics.1.jsonl")));
}

TEST_F(NothingLost, ASecondRunInOneFolderIsRefusedAlsoWithoutCheckpoints) {
  const auto sets = [](int ranks) {
    return TinyRun::steps(
        1000000, "run", {"checkpoint.save=false", "parallel.data=" + std::to_string(ranks)});
  };
  for (const int ranks : {1, 2}) {
    Process first(run_.command(sets(ranks)), run_.options());
    ASSERT_TRUE(first.shows("3/1")) << first.err();
    EXPECT_THAT(run_.train(sets(3 - ranks)), Exits(1, "run is in use: process "));
    first.send(SIGKILL);
    first.wait();
    EXPECT_THAT(run_.survivors(), IsEmpty());
  }
  const ProcessResult third = run_.train(TinyRun::steps(3, "run", {"checkpoint.save=false"}));
  EXPECT_EQ(third.exit_code, 0) << "nothing is left of those that were killed: " << third.err;
}

// --- a run that is killed, a disk that is full for a while ---

TEST_F(NothingLost, TheLineOfAStepIsThereBeforeItsCheckpoint) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    const std::string out = "run" + std::to_string(attempt);
    Process run(run_.command(TinyRun::steps(1000000, out, {"checkpoint.every_steps=1"})),
                run_.options());
    const std::string third = run_.at(out + "/checkpoints/step-3/index.json");
    while (!fs::exists(third)) ASSERT_EQ(run.err(), "");
    run.send(SIGKILL);
    run.wait();
    long newest = 0;
    for (const std::string& name : run_.checkpoints(out)) {
      newest = std::max(newest, std::stol(name.substr(5)));
    }
    EXPECT_GE(static_cast<long>(run_.metrics(out).size()), newest);
  }
}

TEST_F(NothingLost, ASaveThatFailedIsTriedAgain) {
  // Blocks of 512 or 1024 bytes, less than a checkpoint.
  const auto sets = TinyRun::steps(1000000,
                                   "run",
                                   {"checkpoint.every_steps=1000000",
                                    "checkpoint.failures=1000000",
                                    "observers.console.every_steps=1000"});
  Process run(run_.command_after("ulimit -S -f 60", sets), run_.options());
  ASSERT_TRUE(run.shows("step       1/")) << run.err();
  run.send(SIGTERM);
  ASSERT_TRUE(run.shows("File too large; trying again in a moment, 2 of checkpoint.failures"))
      << run.err();
  const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
  ASSERT_EQ(prlimit(run.pid(), RLIMIT_FSIZE, &none, nullptr), 0);
  const ProcessResult result = run.wait();
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_EQ(run_.checkpoints("run").size(), 1U);
}

TEST_F(NothingLost, ASaveIsTriedAgainAtTheNextStepAndEndsTheRunInTheEnd) {
  for (const int ranks : {1, 2}) {
    const std::string out = "run" + std::to_string(ranks);
    const auto sets = TinyRun::steps(100,
                                     out,
                                     {"checkpoint.every_steps=5",
                                      "checkpoint.failures=2",
                                      "comm.type=gloo",  // shm's segment would be too large
                                      "parallel.data=" + std::to_string(ranks)});
    const ProcessResult result =
        run_process(run_.command_after("ulimit -f 60", sets), run_.options());
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("saving step 5 failed, older checkpoints are whole: "),
                      HasSubstr("trying again at the next step, 1 of checkpoint.failures = 2"),
                      HasSubstr("saving step 6 failed"),
                      HasSubstr("trying again at the next step, 2 of checkpoint.failures = 2"),
                      HasSubstr("saving step 7 failed")));
    EXPECT_THAT(result.last_error(), HasSubstr("File too large"));
    EXPECT_EQ(run_.metrics(out).size(), 7U);
  }
}

// A user who clears up, a program that removes old files: the work so far is not lost with them.
TEST_F(NothingLost, WhatIsRemovedWhileTheRunGoesOnIsMadeAgain) {
  for (const std::string asynchronous : {"false", "true"}) {
    const std::string out = "run_" + asynchronous;
    Process run(run_.command(TinyRun::steps(1000000,
                                            out,
                                            {"checkpoint.every_steps=1000000",
                                             "checkpoint.asynchronous=" + asynchronous,
                                             "observers.console.every_steps=10"})),
                run_.options());
    ASSERT_TRUE(run.shows("step      10/")) << run.err();
    fs::remove_all(run_.at(out + "/checkpoints"));
    fs::remove(run_.at(out + "/metrics.jsonl"));
    ASSERT_TRUE(run.shows("metrics.jsonl\" was removed or emptied while the run goes on"))
        << run.err();
    run.send(SIGTERM);
    EXPECT_THAT(run.wait(),
                Exits(3,
                      out + "/checkpoints was removed, emptied or replaced while the run "
                            "goes on: it is made again",
                      Not(HasSubstr("failed"))));
    EXPECT_EQ(run_.checkpoints(out).size(), 1U);
    EXPECT_GT(run_.metrics(out).size(), 0U);
  }
}

// resolved.toml holds every key, those without effect too.
TEST_F(NothingLost, ARunsResolvedConfigurationRuns) {
  for (const std::string mode : {"none", "selective", "full"}) {
    ASSERT_EQ(run_.train(TinyRun::steps(2, mode, {"recompute.mode=" + mode})).exit_code, 0);
    const ProcessResult again = run_process(
        {tessera_program(), "train", run_.at(mode + "/resolved.toml"), "--set", "run.steps=3"},
        run_.options());
    EXPECT_EQ(again.exit_code, 0) << again.err;
    EXPECT_EQ(run_.metrics(mode).size(), 3U);
  }
}

// A pipe or file that took the number of one would receive what is printed.
TEST_F(NothingLost, ClosedStandardDescriptorsAreNobodyElses) {
  const std::string closed[] = {"<&-", ">&-", "2>&-", "<&- >&- 2>&-"};
  for (const std::string& descriptors : closed) {
    SCOPED_TRACE(descriptors);
    const std::string out = "run" + std::to_string(&descriptors - closed);
    const auto sets = TinyRun::steps(5, out, {"parallel.tensor=2"});
    const ProcessResult result =
        run_process(run_.command_after("exec " + descriptors, sets), run_.options());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(run_.metrics(out).size(), 5U);
  }
}

// Before the first step nothing is lost, so a signal need not wait for ranks that are not ready.
TEST_F(NothingLost, AStartOfManyRanksStopsAtOnce) {
  const auto sets =
      TinyRun::steps(10, "run", {"parallel.data=40", "batch.global=80", "comm.oversubscribe=true"});
  Process run(run_.command(sets), run_.options());
  while (!find_rank_process(run_.mark(), 5)) ASSERT_EQ(run.err(), "");
  run.send(SIGTERM);
  const ProcessResult result = run.wait(std::chrono::seconds(5));
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.err;
  EXPECT_THAT(run_.survivors(), IsEmpty());
}

// From a stop signal to the end of a start: ten times what it takes on two cores that others use.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::chrono::duration<double> kEndOfAStart = std::chrono::seconds(30);
#else
constexpr std::chrono::duration<double> kEndOfAStart = std::chrono::seconds(5);
#endif

// While ranks are started, meet, agree, build their part of the model, and train.
TEST_F(NothingLost, AStopIsObeyedWheneverItComes) {
  int before_the_first_step = 0;
  for (const int milliseconds : {20, 60, 120, 250, 500, 1000, 2000}) {
    const auto sets = TinyRun::steps(1000000,
                                     "run" + std::to_string(milliseconds),
                                     {"parallel.data=12",
                                      "batch.global=24",
                                      "checkpoint.every_steps=0",
                                      "comm.oversubscribe=true"});
    Process run(run_.command(sets), run_.options());
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    const auto sent = std::chrono::steady_clock::now();
    run.send(SIGTERM);
    const ProcessResult result = run.wait(std::chrono::seconds(60));
    const auto taken = std::chrono::steady_clock::now() - sent;
    EXPECT_FALSE(result.timed_out) << milliseconds << " ms after the start\n" << result.err;
    if (result.exit_code == 3) {
      EXPECT_EQ(run_.checkpoints("run" + std::to_string(milliseconds)).size(), 1U);
    } else {
      EXPECT_TRUE(result.exit_code == 128 + SIGTERM || result.signal == SIGTERM) << result.err;
      EXPECT_LT(taken, kEndOfAStart) << milliseconds << " ms after the start\n" << result.err;
      ++before_the_first_step;
    }
    EXPECT_THAT(run_.survivors(), IsEmpty());
  }
  EXPECT_GT(before_the_first_step, 1);
}

// Nothing is laid out by the number of steps, on the host or the device.
TEST_F(NothingLost, TenBillionStepsTakeTheMemoryOfFew) {
  const auto peak = [&](const std::string& steps) {
    Process run(
        run_.command(TinyRun::steps(10, "of" + steps, {"run.steps=" + steps, "parallel.data=2"})),
        run_.options());
    EXPECT_TRUE(run.shows("  3/" + steps)) << run.err();
    i64 kilobytes = 0;
    std::ifstream status("/proc/" + std::to_string(rank_process(run_.mark(), 1)) + "/status");
    for (std::string word; status >> word;) {
      if (word == "VmHWM:") status >> kilobytes;
    }
    run.send(SIGTERM);
    const ProcessResult result = run.wait(std::chrono::seconds(60));
    EXPECT_FALSE(result.timed_out);
    return kilobytes;
  };
  const i64 many = peak("10000000000");
  EXPECT_GT(many, 0);
  EXPECT_LT(many, 2 * peak("1000"));
}

// --- going on, and starting from another run ---

TEST_F(NothingLost, GoingOnListsTheKeysThatChanged) {
  const auto sets = TinyRun::steps(3, "run", {"checkpoint.every_steps=2"});
  ASSERT_EQ(run_.train(sets).exit_code, 0);
  fs::remove_all(run_.at("run/checkpoints/step-3"));  // as if it had been stopped
  EXPECT_THAT(run_.train(sets).err, HasSubstr("step-2; no key has changed"));
  EXPECT_THAT(run_.train(TinyRun::steps(
                  5, "run", {"lr.peak=2e-3", "checkpoint.resume=run/checkpoints/step-3"})),
              Exits(0,
                    "changed since then:\n",
                    "  run.steps: 3, now 5\n",
                    "  lr.peak: 0.001, now 0.002\n",
                    Not(HasSubstr("batch."))));
}

TEST_F(NothingLost, ANewRunStartsFromTheParametersOfAnother) {
  ASSERT_EQ(run_.train(TinyRun::steps(60, "base")).exit_code, 0);
  const auto tune = [&](const std::string& out, std::vector<std::string> sets) {
    sets.insert(sets.end(), {"checkpoint.init_from=base", "batch.global=4", "run.seed=5"});
    return run_.train(TinyRun::steps(2, out, sets));
  };
  const ProcessResult tuned = tune("tuned", {});
  EXPECT_EQ(tuned.exit_code, 0) << tuned.err;
  EXPECT_THAT(tuned.err, HasSubstr("parameters of " + run_.at("base/checkpoints/step-60")));
  EXPECT_THAT(tuned.err, Not(HasSubstr("initial values")));
  EXPECT_LT(first_loss("tuned"), 0.8 * first_loss("base"));
  EXPECT_THAT(run_.checkpoints("tuned"), ElementsAre("step-2"));

  EXPECT_THAT(tune("deeper", {"model.layers=3"}).err,
              HasSubstr("new, with initial values: layers.2."));
  EXPECT_THAT(tune("flatter", {"model.layers=1"}).err, HasSubstr("left out: layers.1."));
  // The same command goes on with the run that it started, which is finished.
  EXPECT_THAT(tune("tuned", {}).err,
              HasSubstr("already finished: " + run_.at("tuned/checkpoints/step-2")));
}

TEST_F(NothingLost, AnotherOptimizerStartsFromTheParameters) {
  ASSERT_EQ(run_.train(TinyRun::steps(3, "base")).exit_code, 0);
  const std::string step = run_.at("base/checkpoints/step-3");
  const std::string way_out =
      "Its parameters fit, the state of its optimizer does not. To start a new run from these "
      "parameters: checkpoint.init_from = \"" +
      step + "\" and another run.out";
  for (const std::vector<std::string>& others :
       {std::vector<std::string>{"optimizer.rule.type=lion"},
        {"optimizer.state_dtype=bf16", "optimizer.rule.beta2=0.95"}}) {
    EXPECT_THAT(run_.train(TinyRun::steps(5, "base", others)).err,
                HasSubstr("this run is finished, at step 3"));
    std::vector<std::string> named = others;
    named.push_back("checkpoint.resume=" + step);
    EXPECT_THAT(run_.train(TinyRun::steps(5, "base", named)),
                Exits(2, "checkpoint " + step + " does not fit this configuration:", way_out))
        << others[0];
    std::vector<std::string> from = others;
    from.push_back("checkpoint.init_from=" + step);
    EXPECT_EQ(run_.train(TinyRun::steps(5, "other", from)).exit_code, 0);
    std::filesystem::remove_all(run_.at("other"));
  }
  // Where parameters do not fit either, it is no way out.
  EXPECT_THAT(
      run_.train(TinyRun::steps(
                     5,
                     "base",
                     {"optimizer.rule.type=lion", "model.layers=1", "checkpoint.resume=" + step}))
          .err,
      AllOf(HasSubstr("does not fit this configuration:"), Not(HasSubstr("init_from"))));
}

TEST_F(NothingLost, ParametersOfAnotherShapeAreNamedOrSkipped) {
  ASSERT_EQ(run_.train(TinyRun::steps(3, "base")).exit_code, 0);
  const auto tune = [&](const std::string& skip) {
    return run_.train(TinyRun::steps(
        2, "tuned", {"checkpoint.init_from=base", "model.vocab=300", "parallel.tensor=2", skip}));
  };
  EXPECT_THAT(tune("checkpoint.init_skip=[]"),
              Exits(2,
                    "[256, 24] in the checkpoint, fp32 [300, 24] in this configuration",
                    "checkpoint.init_skip = [\"NAME\"]"));
  EXPECT_THAT(tune("checkpoint.init_skip=[\"haed.*\"]").err,
              HasSubstr("--set #6: checkpoint.init_skip: \"haed.*\" matches no parameter"));
  EXPECT_THAT(tune("checkpoint.init_skip=[\"embedding*\"]"),
              Exits(0, "new, with initial values: embedding"));
}

TEST_F(NothingLost, AStartThatIsNotThereIsAMistake) {
  EXPECT_THAT(
      run_.train(TinyRun::steps(2, "run", {"checkpoint.init_from=gone", "parallel.data=2"})),
      Exits(2, "--set #3: [checkpoint] init_from: there is no checkpoint " + run_.at("gone")));
  EXPECT_THAT(run_.train(TinyRun::steps(2, "run", {"checkpoint.init_skip=[\"a\"]"})).err,
              HasSubstr("init_skip: has no effect without init_from"));
}

// Names and contents as somebody else could have made them.
TEST_F(NothingLost, OneBadStepDoesNotHideTheOthers) {
  ASSERT_EQ(run_.train(TinyRun::steps(5, "run", {"checkpoint.every_steps=2"})).exit_code, 0);
  const fs::path steps = run_.at("run/checkpoints");
  fs::create_symlink("circle", steps / "step-4/circle");
  std::ofstream(steps / "step-2/index.json") << "{\"a\":" << std::string(100'000, '[');
  fs::create_directories(steps / "step-3");
  fs::create_symlink("index.json", steps / "step-3/index.json");
  std::ofstream(steps / "step-5/index.json") << "{\"format\": \"\xc2\x9b[31m\"}";
  EXPECT_THAT(run_tessera({"checkpoint", "list", run_.at("run")}),
              Prints(0,
                     ContainsRegex(" 4  .*  complete, "),
                     ContainsRegex(" 2  .* is damaged: more than 32 objects and arrays"),
                     ContainsRegex(" 5  .* is damaged: it has format \"\\\\u009B"),
                     Not(HasSubstr("\xc2\x9b"))));
}

// Errors of the file system are told in the product's words too.
TEST_F(NothingLost, ALinkToItselfIsNamed) {
  fs::create_symlink("loop", run_.at("loop"));
  const std::string why = "loop: Too many levels of symbolic links\n";
  for (const auto& [words, text] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"checkpoint", "list"}, "there is no folder "},
           {{"checkpoint", "verify"}, "there is no checkpoint "},
           {{"convert", "--to", run_.at("to"), "--from"}, "there is no checkpoint "}}) {
    std::vector<std::string> command = words;
    command.push_back(run_.at("loop"));
    const ProcessResult result = run_tessera(command);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.err, text + run_.folder.at("") + why);
  }
  fs::create_directories(run_.at("theirs"));
  std::ofstream(run_.at("theirs/config.json")) << "{}";
  fs::create_symlink("model.safetensors", run_.at("theirs/model.safetensors"));
  EXPECT_THAT(run_tessera({"convert", "--from", run_.at("theirs"), "--to", run_.at("to")}),
              Exits(1, "cannot use " + run_.at("theirs/model.safetensors") + ": Too"));
}

}  // namespace nothing_lost_test
}  // namespace tessera::testing
