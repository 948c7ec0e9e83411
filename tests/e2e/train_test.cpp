// Training as a user meets it: runs that stop, die, find their disk full or their checkpoint
// damaged, and go on.
#include "train_support.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <memory>
#include <set>

#include "common/shared_memory.hpp"

namespace tessera::testing {
namespace train_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Train : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_THAT(run_.survivors(), IsEmpty());
    EXPECT_EQ(shared_memory(), shared_memory_);
  }
  void spoil(const std::string& file) const {
    std::fstream out(run_.at(file), std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(out.good()) << file;
    out.seekp(-100, std::ios::end);
    out << "damage";
  }
  const TinyRun run_;
  const std::set<std::string> shared_memory_ = shared_memory();
};

struct Layout {
  std::string name;
  std::vector<std::string> sets;
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

// --- stopping and going on ---

class Interrupt : public Train, public ::testing::WithParamInterface<Layout> {};

TEST_P(Interrupt, SavesAndGoesOnBitForBit) {
  constexpr int kSteps = 120;
  const auto& layout = GetParam().sets;
  const ProcessResult whole = run_.train(TinyRun::steps(kSteps, "whole", layout));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  ASSERT_EQ(run_.metrics("whole").size(), static_cast<std::size_t>(kSteps));

  std::string out;
  std::size_t steps = kSteps;
  // The run may be over before the signal comes.
  for (int attempt = 0; attempt < 10 && steps == kSteps; ++attempt) {
    out = "parts" + std::to_string(attempt);
    Process first(run_.command(TinyRun::steps(kSteps, out, layout)), run_.options());
    ASSERT_TRUE(first.shows("3/120")) << first.err();
    first.send(SIGINT);
    const ProcessResult stopped = first.wait();
    steps = run_.metrics(out).size();
    ASSERT_EQ(stopped.exit_code, steps == kSteps ? 0 : 3) << stopped.err;
  }
  ASSERT_LT(steps, static_cast<std::size_t>(kSteps)) << "it was not stopped";
  EXPECT_THAT(run_.checkpoints(out), ElementsAre("step-" + std::to_string(steps)));

  EXPECT_THAT(run_.train(TinyRun::steps(kSteps, out, layout)),
              Prints(0, "checkpoints/step-" + std::to_string(steps)));
  EXPECT_EQ(run_.metrics(out), run_.metrics("whole"));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts,
    Interrupt,
    ::testing::Values(Layout{"single", {}},
                      Layout{"tp2", {"parallel.tensor=2"}},
                      Layout{"dp2", {"parallel.data=2"}},
                      Layout{"asynchronous", {"parallel.data=2", "checkpoint.asynchronous=true"}}),
    [](const auto& info) { return info.param.name; });

// A dropped connection, and what batch systems send before they end a job.
TEST_F(Train, SavesAndSaysThatItWasInterruptedAtEverySignal) {
  for (const int ranks : {1, 2}) {
    const std::string data = "parallel.data=" + std::to_string(ranks);
    for (const int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
      const std::string out = "run" + std::to_string(signal) + "-" + std::to_string(ranks);
      Process run(run_.command(TinyRun::steps(1000000, out, {data})), run_.options());
      ASSERT_TRUE(run.shows("3/1")) << run.err();
      run.send(signal);
      const ProcessResult ended = run.wait();
      EXPECT_EQ(ended.exit_code, 3) << "signal " << ended.signal << "\n" << ended.err;
      EXPECT_EQ(run_.checkpoints(out).size(), 1U);
    }
  }
}

class Kill : public Train, public ::testing::WithParamInterface<bool> {};

TEST_P(Kill, RunsGoOnFromTheirCheckpoint) {
  constexpr int kSteps = 60;
  const std::string asynchronous = GetParam() ? "true" : "false";
  const auto sets = [&](const std::string& out) {
    return TinyRun::steps(
        kSteps,
        out,
        {"parallel.data=2", "checkpoint.every_steps=7", "checkpoint.asynchronous=" + asynchronous});
  };
  ASSERT_EQ(run_.train(sets("whole")).exit_code, 0);
  std::string out;
  int signal = 0;
  // The run may be over before the signal comes.
  for (int attempt = 0; attempt < 10 && signal == 0; ++attempt) {
    out = "parts" + std::to_string(attempt);
    Process first(run_.command(sets(out)), run_.options());
    ASSERT_TRUE(first.shows("saved", 2)) << first.err();
    first.send(SIGKILL);
    signal = first.wait().signal;
  }
  ASSERT_EQ(signal, SIGKILL);
  EXPECT_THAT(run_.survivors(), IsEmpty());
  const std::string left = run_.at(out + "/checkpoints/step-999.tiny.tmp");
  fs::create_directories(left);
  const ProcessResult second = run_.train(sets(out));
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(run_.metrics(out), run_.metrics("whole"));
  EXPECT_FALSE(fs::exists(left));
}

INSTANTIATE_TEST_SUITE_P(Saves, Kill, ::testing::Bool(), [](const auto& info) {
  return info.param ? "asynchronous" : "at_once";
});

// It does not wait for the timeout of a collective, which would be an hour.
TEST_F(Train, AKilledRankIsNamedAtOnce) {
  for (const std::string communicator : {"shm", "gloo"}) {
    SCOPED_TRACE(communicator);
    const std::vector<std::string> sets = {
        "parallel.data=2", "comm.timeout_s=3600", "comm.type=" + communicator};
    Process run(run_.command(TinyRun::steps(1000000, communicator, sets)), run_.options());
    ASSERT_TRUE(run.shows("3/1")) << run.err();
    const pid_t rank = rank_process(run_.mark(), 1);
    ASSERT_GT(rank, 0);
    kill(rank, SIGKILL);
    const ProcessResult result = run.wait();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.last_error(), "rank 1 was killed by signal 9 (Killed)");
  }
}

TEST_F(Train, ASecondRunInTheSameFolderIsRefused) {
  Process first(run_.command(TinyRun::steps(1000000, "run")), run_.options());
  ASSERT_TRUE(first.shows("3/1")) << first.err();
  EXPECT_THAT(run_.train(TinyRun::steps(10, "run")),
              Exits(1, "run is in use: process " + std::to_string(first.pid())));
  first.send(SIGTERM);
  const ProcessResult ended = first.wait();
  EXPECT_EQ(ended.exit_code, 3) << "signal " << ended.signal << "\n" << ended.err;
}

class Divergence : public Train, public ::testing::WithParamInterface<Layout> {};

TEST_P(Divergence, IsAnErrorOfAllRanksAndNothingIsSaved) {
  ASSERT_EQ(run_.train(TinyRun::steps(3, "run")).exit_code, 0);
  std::vector<std::string> sets = {"lr.peak=1e30",
                                   "checkpoint.resume=run/checkpoints/step-3",
                                   "run.log_every_steps=4",
                                   "checkpoint.every_steps=100",
                                   "validation.every_steps=100",
                                   "lr.warmup_steps=0"};
  sets.insert(sets.end(), GetParam().sets.begin(), GetParam().sets.end());
  const ProcessResult result = run_.train(TinyRun::steps(12, "run", sets));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.last_error(),
            "the loss of step 5 is not finite: the run has diverged; the newest checkpoint before "
            "it is " +
                run_.at("run/checkpoints/step-3") + "; a lower learning rate may help");
  EXPECT_THAT(run_.checkpoints("run"), ElementsAre("step-3"));
  EXPECT_THAT(run_.survivors(), IsEmpty());
}

TEST_P(Divergence, IsSeenInTheValidationOfTheLastStepToo) {
  std::vector<std::string> sets = {
      "lr.type=constant", "lr.peak=1e30", "lr.warmup_steps=0", "validation.every_steps=100"};
  sets.insert(sets.end(), GetParam().sets.begin(), GetParam().sets.end());
  const ProcessResult result = run_.train(TinyRun::steps(1, "run", sets));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.last_error(),
            "the validation loss of step 1 is not finite: the run has diverged; no checkpoint was "
            "saved before; a lower learning rate may help");
  EXPECT_THAT(run_.checkpoints("run"), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Layouts,
                         Divergence,
                         ::testing::Values(Layout{"single", {}},
                                           Layout{"tp2", {"parallel.tensor=2"}},
                                           Layout{"pp2",
                                                  {"parallel.pipeline=2", "schedule.type=1f1b"}}),
                         [](const auto& info) { return info.param.name; });

// --- checkpoints that cannot be written or read ---

TEST_F(Train, AFullDiskEndsTheRunAndLeavesTheOlderCheckpoint) {
  ASSERT_EQ(run_.train(TinyRun::steps(5, "run")).exit_code, 0);
  // Blocks of 512 or 1024 bytes, less than a checkpoint, more than everything else.
  EXPECT_THAT(
      run_process(run_.command_after("ulimit -f 60", TinyRun::steps(10, "run")), run_.options()),
      Exits(1,
            "saving step 10 failed, older checkpoints are whole: cannot write ",
            "rank-00000.safetensors: File too large"));
  EXPECT_THAT(run_.checkpoints("run"), ElementsAre("step-5"));
  EXPECT_FALSE(fs::exists(run_.at("run/checkpoints/step-10.tiny.tmp")));
  const ProcessResult again = run_.train(TinyRun::steps(10, "run"));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(run_.metrics("run").size(), 10U);
}

// A disk of its own, which is really full, under two ranks.
TEST_F(Train, AFullDiskUnderSeveralRanks) {
  if (run_process({"unshare", "-rm", "true"}).exit_code != 0) {
    GTEST_SKIP() << "this system lets no user mount";
  }
  std::string train;
  for (const std::string& part : run_.command(TinyRun::steps(60,
                                                             "run",
                                                             {"parallel.tensor=2",
                                                              "checkpoint.every_steps=5",
                                                              "checkpoint.keep=0",
                                                              "checkpoint.out=disk"}))) {
    train += " '" + part + "'";
  }
  const std::string script = "mkdir disk && mount -t tmpfs -o size=1m none disk &&" + train +
                             "; code=$?; '" + tessera_program() +
                             "' checkpoint verify disk; ls disk; exit $code";
  const ProcessResult full = run_process({"unshare", "-rm", "sh", "-c", script}, run_.options());
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_THAT(full.err, HasSubstr("No space left on device"));
  EXPECT_THAT(full.out, AllOf(HasSubstr("step-5: step 5, "), HasSubstr("good\n")));
  EXPECT_THAT(full.out, Not(HasSubstr(".tmp")));
  EXPECT_THAT(full.err, Not(HasSubstr("damaged")));
}

// In the background it is tried again, a second later each time, and then ends the run. Under
// "rewind" that waits for a step that saves or is the last, and is not lost there.
TEST_F(Train, AFullDiskUnderAnAsynchronousSave) {
  const std::pair<const char*, int> runs[] = {
      {"stop", 1000000}, {"rewind", 1000000}, {"rewind", 7}};
  for (const auto& [on_bad_step, steps] : runs) {
    SCOPED_TRACE(on_bad_step + std::string(" ") + std::to_string(steps));
    const std::vector<std::string> sets =
        TinyRun::steps(steps,
                       "run",
                       {"parallel.tensor=2",
                        "comm.type=gloo",
                        "checkpoint.every_steps=5",
                        "checkpoint.failures=1",
                        "checkpoint.asynchronous=true",
                        std::string("check.on_bad_step=") + on_bad_step,
                        "observers.metrics.type=none"});
    // Blocks of 512 or 1024 bytes: more than resolved.toml, less than a rank's file.
    const ProcessResult full =
        run_process(run_.command_after("ulimit -f 24", sets), run_.options());
    EXPECT_EQ(full.exit_code, 1);
    EXPECT_THAT(
        full.err,
        AllOf(HasSubstr("trying again in a moment, 1 of checkpoint.failures = 1"),
              HasSubstr("\nsaving step 5 failed, older checkpoints are whole: cannot write ")));
    EXPECT_THAT(full.last_error(), HasSubstr("File too large"));
    EXPECT_THAT(run_.checkpoints("run"), IsEmpty());
  }
}

TEST_F(Train, ADamagedNewestFallsBackWithAWarning) {
  const auto sets = TinyRun::steps(8, "run", {"parallel.tensor=2", "checkpoint.every_steps=3"});
  ASSERT_EQ(run_.train(sets).exit_code, 0);
  const auto whole = run_.metrics("run");
  spoil("run/checkpoints/step-8/rank-00001.safetensors");
  EXPECT_THAT(run_.train(sets),
              Exits(0,
                    "step-8/rank-00001.safetensors is damaged: the checksum is wrong",
                    "falling back to " + run_.at("run/checkpoints/step-6")));
  EXPECT_EQ(run_.metrics("run"), whole);
  EXPECT_EQ(run_tessera({"checkpoint", "verify", run_.at("run")}).exit_code, 0);
}

TEST_F(Train, ANewestWithoutItsIndexIsPassedOverWithAWarning) {
  ASSERT_EQ(run_.train(TinyRun::steps(5, "run", {"checkpoint.every_steps=2"})).exit_code, 0);
  fs::remove(run_.at("run/checkpoints/step-5/index.json"));
  EXPECT_THAT(run_.train(TinyRun::steps(6, "run")),
              Exits(0,
                    "step-5 is not complete, it has no index.json: it is passed over",
                    "going on from " + run_.at("run/checkpoints/step-4")));
}

TEST_F(Train, AModelThatDoesNotFitIsToldByItsKeysToo) {
  ASSERT_EQ(run_.train(TinyRun::steps(2, "run")).exit_code, 0);
  for (const std::string ranks : {"parallel.data=1", "parallel.data=2"}) {
    EXPECT_THAT(
        run_.train(TinyRun::steps(
            4, "run", {"model.layers=3", "checkpoint.resume=run/checkpoints/step-2", ranks})),
        Exits(2,
              "does not fit this configuration:",
              "changed since then:\n",
              "model.layers: 2, now 3",
              Not(HasSubstr("what each rank did last"))));
  }
}

TEST_F(Train, TheCheckpointThatWasAskedForOrNone) {
  EXPECT_THAT(run_.train(TinyRun::steps(5, "run", {"checkpoint.resume=nowhere"})),
              Exits(2, "there is no checkpoint " + run_.at("nowhere")));
  ASSERT_EQ(run_.train(TinyRun::steps(5, "run", {"checkpoint.every_steps=2"})).exit_code, 0);
  spoil("run/checkpoints/step-4/rank-00000.safetensors");
  EXPECT_THAT(run_.train(TinyRun::steps(5, "other", {"checkpoint.resume=run/checkpoints/step-4"})),
              Exits(1, "step-4 is damaged:\n  tensors \""));
  const ProcessResult earlier =
      run_.train(TinyRun::steps(5, "other", {"checkpoint.resume=run/checkpoints/step-2"}));
  EXPECT_EQ(earlier.exit_code, 0) << earlier.err;
  EXPECT_THAT(run_.checkpoints("other"), ElementsAre("step-5"));
}

// --- tessera checkpoint, tessera generate ---

TEST_F(Train, CheckpointsAreListedAndVerified) {
  ASSERT_EQ(run_.train(TinyRun::steps(5, "run", {"checkpoint.every_steps=2"})).exit_code, 0);
  fs::create_directories(run_.at("run/checkpoints/step-7.tiny.tmp"));
  fs::remove(run_.at("run/checkpoints/step-2/index.json"));
  run_.folder.write("run/checkpoints/step-12", "");
  fs::create_symlink("nowhere", run_.at("run/checkpoints/step-13"));
  const ProcessResult list = run_tessera({"checkpoint", "list", run_.at("run")});
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_THAT(list.out,
              AllOf(HasSubstr("not finished"),
                    HasSubstr("complete, "),
                    HasSubstr("incomplete: no index.json"),
                    Not(HasSubstr(" 12  ")),
                    Not(HasSubstr(" 13  "))));
  const ProcessResult one = run_tessera({"checkpoint", "list", run_.at("run/checkpoints/step-4")});
  EXPECT_THAT(one.out, AllOf(HasSubstr(" 4  "), HasSubstr("complete, "), Not(HasSubstr(" 5  "))));
  EXPECT_THAT(run_tessera({"checkpoint", "verify", run_.at("run")}),
              Prints(0, "step-5: step 5, ", "step-4: step 4, "));
  spoil("run/checkpoints/step-4/rank-00000.safetensors");
  const ProcessResult bad = run_tessera({"checkpoint", "verify", run_.at("run/checkpoints")});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.out, HasSubstr("step-5: step 5, "));
  EXPECT_THAT(bad.err,
              AllOf(HasSubstr("step-4 is damaged:\n  tensors \""),
                    HasSubstr("rank-00000.safetensors is damaged: the checksum is wrong")));
  fs::resize_file(run_.at("run/checkpoints/step-4/rank-00000.safetensors"), 100);
  EXPECT_THAT(run_tessera({"checkpoint", "list", run_.at("run")}).out,
              HasSubstr("damaged: rank-00000.safetensors has 100 of "));
  fs::rename(run_.at("run/checkpoints/step-5"), run_.at("best"));
  EXPECT_THAT(run_tessera({"checkpoint", "list", run_.at("best")}).out, HasSubstr(" 5  "));
  for (const std::string none : {"nowhere", "run/checkpoints/step-12"}) {
    EXPECT_EQ(run_tessera({"checkpoint", "verify", run_.at(none)}).exit_code, 2);
    EXPECT_EQ(run_tessera({"checkpoint", "list", run_.at(none)}).exit_code, 2);
  }
}

TEST_F(Train, CommandsTellOfANewestWithoutItsIndex) {
  ASSERT_EQ(run_.train(TinyRun::steps(5, "run", {"checkpoint.every_steps=2"})).exit_code, 0);
  const std::string run = run_.at("run"), step = run + "/checkpoints/step-4";
  fs::remove(run + "/checkpoints/step-5/index.json");
  const std::string told = "step-5 is not complete, it has no index.json: it is passed over";
  const ProcessResult verified = run_tessera({"checkpoint", "verify", run});
  EXPECT_EQ(verified.exit_code, 1) << verified.err;
  EXPECT_THAT(verified.err, HasSubstr(told));
  EXPECT_THAT(verified.out, AllOf(HasSubstr("step-4: step 4, "), HasSubstr("step-2: step 2, ")));
  EXPECT_EQ(run_tessera({"checkpoint", "verify", step}).exit_code, 0);
  EXPECT_THAT(run_tessera({"checkpoint", "verify", "--help"}).out,
              HasSubstr("ones lost its index.json"));
  const std::vector<std::vector<std::string>> commands = {
      {"checkpoint", "diff", run, step},
      {"checkpoint", "diff", step, run},
      {"checkpoint", "export", run, run_.at("exported")},
      {"checkpoint", "reshard", run, run_.at("resharded")},
      {"convert", "--from", run, "--to", run_.at("converted")}};
  for (const std::vector<std::string>& command : commands) {
    const ProcessResult result = run_tessera(command);
    EXPECT_EQ(result.exit_code, 0) << command[1] << "\n" << result.err;
    EXPECT_THAT(result.err, HasSubstr(told)) << command[1];
    EXPECT_THAT(result.out, HasSubstr("step-4")) << command[1];
  }
}

TEST_F(Train, CheckpointsAreReshardedComparedAndExported) {
  ASSERT_EQ(run_.train(TinyRun::steps(4, "run", {"checkpoint.every_steps=2"})).exit_code, 0);
  const std::string step = run_.at("run/checkpoints/step-4"), out = run_.at("other/checkpoints");
  fs::rename(run_.at("text.txt"), run_.at("elsewhere.txt"));  // nothing here needs the data
  const std::vector<std::string> layout = {
      "--set", "parallel.tensor=2", "--set", "parallel.pipeline=2", "--set", "schedule.type=1f1b"};
  std::vector<std::string> reshard = {"checkpoint", "reshard", run_.at("run"), out};
  reshard.insert(reshard.end(), layout.begin(), layout.end());
  const ProcessResult written = run_tessera(reshard);
  ASSERT_EQ(written.exit_code, 0) << written.err;
  EXPECT_THAT(written.out, HasSubstr("step-4: as 4 ranks would have saved it"));
  EXPECT_TRUE(fs::exists(out + "/step-4/rank-00003.safetensors"));
  EXPECT_EQ(run_tessera(reshard).exit_code, 2) << "it is there already";

  const ProcessResult same = run_tessera({"checkpoint", "diff", step, run_.at("other")});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr(" tensors are equal, 0 differ, 0 only in the first"));
  const ProcessResult differ =
      run_tessera({"checkpoint", "diff", run_.at("run/checkpoints/step-2"), step, "--json"});
  EXPECT_EQ(differ.exit_code, 1) << differ.err;
  EXPECT_THAT(differ.out,
              AllOf(HasSubstr(R"("same":false,"counts":["step: 2 and 4")"),
                    HasSubstr(R"("most":)"),
                    HasSubstr(R"("largest":{"name":")")));
  EXPECT_THAT(
      run_tessera(
          {"checkpoint", "diff", run_.at("run/checkpoints/step-2"), step, "--tolerance", "1e9"}),
      Prints(1,
             "step: 2 and 4\n",
             " within 1e+09, 0 differ, 0 only in the first",
             "the largest difference is ",
             " of the tensor's magnitude, in "))
      << "the steps differ";
  EXPECT_EQ(run_tessera({"checkpoint", "diff", step, step, "--tolerance", "-1"}).exit_code, 2);
  EXPECT_EQ(run_tessera({"checkpoint", "diff", step, run_.at("none")}).exit_code, 2);

  EXPECT_THAT(
      run_tessera({"checkpoint", "export", step, run_.at("m.safetensors"), "--dtype", "bf16"}),
      Prints(0, " parameters of " + step));
  EXPECT_EQ(run_tessera({"checkpoint", "export", step, run_.at("m.safetensors")}).exit_code, 2);
  EXPECT_THAT(
      run_tessera({"checkpoint", "reshard", step, run_.at("x"), "--set", "model.hidden=12"}),
      Exits(2,
            "step-4 does not fit this configuration:",
            "in the checkpoint, fp32 [12] in this configuration",
            Not(HasSubstr("this run"))));
  EXPECT_THAT(
      run_tessera(
          {"checkpoint", "reshard", step, run_.at("x"), "--set", "optimizer.rule.type=muon"}),
      Exits(2,
            "not in the checkpoint: ",
            "layers.0.mlp.up.weight/momentum",
            "layers.0.mlp.up.weight/second_moment",
            "checkpoint.init_from = "));
  EXPECT_THAT(run_tessera({"checkpoint", "reshard", "--help"}).out,
              HasSubstr("No layout needs it"));
  fs::rename(run_.at("elsewhere.txt"), run_.at("text.txt"));

  // The resharded one goes on as the original does.
  EXPECT_THAT(run_.train(TinyRun::steps(
                  6, "other", {"parallel.tensor=2", "parallel.pipeline=2", "schedule.type=1f1b"})),
              Exits(0, "going on from " + out + "/step-4"));
}

TEST_F(Train, ExpertsAreReshardedToo) {
  ASSERT_EQ(run_.train(TinyRun::steps(2,
                                      "run",
                                      {"model.block.mlp.type=moe",
                                       "model.block.mlp.experts=4",
                                       "parallel.data=4",
                                       "parallel.expert=2",
                                       "batch.micro=1",
                                       "optimizer.type=distributed"}))
                .exit_code,
            0);
  const std::string step = run_.at("run/checkpoints/step-2"), out = run_.at("other");
  const ProcessResult result = run_tessera({"checkpoint",
                                            "reshard",
                                            step,
                                            out,
                                            "--set",
                                            "parallel.data=auto",
                                            "--set",
                                            "parallel.tensor=2",
                                            "--set",
                                            "parallel.expert_tensor=1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(run_tessera({"checkpoint", "diff", step, out + "/step-2"}),
              Prints(0, " tensors are equal, 0 differ"));
}

TEST_F(Train, WarnsOnceOfAModelThatIsNotCausal) {
  const std::vector<std::string> experts = {
      "model.block.mlp.type=moe", "model.block.mlp.experts=4", "model.block.mlp.ffn=16"};
  const std::string warning =
      "its experts choose among all rows of a sequence: the model is not causal, so its loss rests "
      "on tokens that it does not have when it generates text";
  const auto times = [&](const std::string& text) {
    int count = 0;
    for (std::size_t at = text.find(warning); at != text.npos; at = text.find(warning, at + 1)) {
      ++count;
    }
    return count;
  };
  std::vector<std::string> choosing = experts;
  choosing.insert(choosing.end(),
                  {"model.block.mlp.router.type=expert_choice",
                   "parallel.pipeline=2",
                   "placement.count_embedding=true",
                   "placement.count_head=true"});
  const ProcessResult trained = run_.train(TinyRun::steps(3, "run", choosing));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(times(trained.err), 1) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("[model.block.mlp] type = \"moe\": its experts"));
  const ProcessResult text =
      run_tessera({"generate", "--checkpoint", run_.at("run"), "--prompt", "the", "--tokens", "2"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(times(text.err), 1) << text.err;
  EXPECT_EQ(times(run_.train(TinyRun::steps(2, "causal", experts)).err), 0);
  std::vector<std::string> limited = experts;
  limited.emplace_back("model.block.mlp.capacity_factor=1.0");
  EXPECT_THAT(run_.train(TinyRun::steps(2, "limited", limited)).err,
              HasSubstr("drop = \"weight\" lets later rows of a sequence take the places of "
                        "earlier ones: the model is not causal"));
  limited.emplace_back("model.block.mlp.drop=position");
  EXPECT_THAT(run_.train(TinyRun::steps(2, "first", limited)).err, Not(HasSubstr("causal")));
  // Attention to later positions is what a model is meant to have.
  choosing.emplace_back("model.block.attention.causal=false");
  EXPECT_EQ(times(run_.train(TinyRun::steps(2, "both", choosing)).err), 0);
}

TEST_F(Train, GeneratesFromAnyLayoutWithoutTheData) {
  ASSERT_EQ(run_.train(TinyRun::steps(20, "run", {"parallel.tensor=2"})).exit_code, 0);
  fs::remove(run_.at("text.txt"));
  const auto generate = [&](std::vector<std::string> more) {
    more.insert(
        more.begin(),
        {"generate", "--checkpoint", run_.at("run"), "--prompt", "the king", "--tokens", "30"});
    return run_tessera(more);
  };
  const ProcessResult first = generate({"--seed", "1"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.out.substr(0, 8), "the king");
  EXPECT_EQ(first.out.size(), 8U + 30 + 1);
  EXPECT_EQ(generate({"--seed", "1"}).out, first.out);
  EXPECT_NE(generate({"--seed", "2"}).out, first.out);
  const ProcessResult greedy = generate({"--temperature", "0", "--seed", "1"});
  EXPECT_EQ(generate({"--temperature", "0", "--seed", "2"}).out, greedy.out);
  EXPECT_EQ(generate({"--prompt", ""}).exit_code, 2);
  EXPECT_EQ(run_tessera({"generate", "--checkpoint", run_.at("none"), "--prompt", "a"}).exit_code,
            2);
}

// --- output that nobody reads any more ---

class ClosedOutput : public ::testing::TestWithParam<std::string> {
 protected:
  static ProcessResult pipe(const TinyRun& run, const std::string& reader, int ranks) {
    const std::string data = "parallel.data=" + std::to_string(ranks);
    std::vector<std::string> command =
        run.command(TinyRun::steps(100000, "run", {data, "checkpoint.every_steps=100000"}));
    const std::string script = "set -o pipefail; \"$0\" \"$@\" " + reader;
    command.insert(command.begin(), {"bash", "-c", script});
    return run_process(command, run.options());
  }
};

TEST_P(ClosedOutput, StopsAndSavesWithoutAWord) {
  for (const int ranks : {1, 2}) {
    const TinyRun run;
    const ProcessResult result = pipe(run, GetParam(), ranks);
    EXPECT_EQ(result.exit_code, 141);
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 3) << result.out;
    EXPECT_EQ(result.err, "");
    EXPECT_EQ(run.checkpoints("run").size(), 1U);
    EXPECT_THAT(run.survivors(), IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(Readers,
                         ClosedOutput,
                         ::testing::Values("| head -3", "2>&1 | head -3"),
                         [](const auto& info) { return info.index == 0 ? "Output" : "Both"; });

}  // namespace train_test
}  // namespace tessera::testing
