// check.on_bad_step: what happens to a step whose loss rises, on one rank and on two.
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/metrics_lines.hpp"
#include "train_support.hpp"

namespace tessera::testing {
namespace bad_steps_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A text that is soon learned, with a few bytes in it that occur nowhere else.
class BadSteps : public ::testing::TestWithParam<const char*> {
 protected:
  BadSteps() {
    std::string text;
    for (int i = 0; i < 800; ++i) text += "abc ";
    for (std::size_t i = 0; i < 64; ++i) text[1600 + i] = static_cast<char>(190 + i);
    run_.folder.write("text.txt", text);
  }
  std::vector<std::string> sets(const std::string& out, const std::string& on_bad_step) const {
    return TinyRun::steps(40,
                          out,
                          {GetParam(),
                           "run.log_every_steps=4",
                           "checkpoint.every_steps=5",
                           "lr.type=constant",
                           "lr.peak=1e-2",
                           "lr.warmup_steps=0",
                           "model.dropout=0.0",
                           "check.loss_rise=1.3",
                           "check.loss_window=4",
                           "check.on_bad_step=" + on_bad_step});
  }
  // Saves each step. A rate of 1e30 breaks the parameters in one update.
  static std::vector<std::string> until(int steps,
                                        const std::string& rate,
                                        const std::string& on_bad_step) {
    return TinyRun::steps(steps,
                          "run",
                          {GetParam(),
                           "checkpoint.every_steps=1",
                           "lr.type=constant",
                           "lr.peak=" + rate,
                           "lr.warmup_steps=0",
                           "optimizer.clip=0.0",
                           "check.on_bad_step=" + on_bad_step});
  }
  // Of the first bad step's samples, the one with the odd bytes has by far the largest loss.
  void expect_the_odd_sample(const std::string& out) const {
    std::istringstream lines(run_.folder.read(out + "/bad-steps.jsonl"));
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    const nlohmann::json bad = nlohmann::json::parse(line);
    EXPECT_THAT(bad["why"].get<std::string>(), HasSubstr("check.loss_rise"));
    std::vector<double> losses;
    for (const nlohmann::json& sample : bad["samples"]) {
      losses.push_back(sample["loss"].get<double>());
      const long ordinal = sample["sample"];
      EXPECT_EQ(ordinal / 8 + 1, bad["step"].get<long>());
      EXPECT_THAT(sample["from"].get<std::string>(), HasSubstr("of the training text"));
    }
    ASSERT_EQ(losses.size(), 8U);
    std::ranges::sort(losses);
    EXPECT_GT(losses[7], 2 * losses[0]);
  }
  // A finished run goes on with other keys where its checkpoint is named.
  ProcessResult train_from(int step, std::vector<std::string> sets) const {
    sets.push_back("checkpoint.resume=run/checkpoints/step-" + std::to_string(step));
    return run_.train(sets);
  }
  static std::ptrdiff_t skipped(const std::vector<std::string>& metrics) {
    return std::ranges::count_if(metrics, [](const std::string& line) {
      return line.find("\"skipped\":true") != std::string::npos;
    });
  }
  const TinyRun run_;
};

TEST_P(BadSteps, StopNamesTheStep) {
  EXPECT_THAT(run_.train(sets("run", "stop")),
              EndsOn(1,
                     "the loss of step ",
                     "is more than check.loss_rise = 1.3 times the mean of the steps",
                     "the newest checkpoint before it is " + run_.at("run")));
  EXPECT_THAT(run_.survivors(), IsEmpty());
  expect_the_odd_sample("run");
}

TEST_P(BadSteps, SkipLeavesTheUpdateOut) {
  EXPECT_THAT(run_.train(sets("run", "skip")),
              Exits(0, "its update is left out, 1 of check.bad_steps = 3 in a row"));
  expect_the_odd_sample("run");
  EXPECT_EQ(run_.metrics("run").size(), 40U);
  EXPECT_GE(skipped(run_.metrics("run")), 1);
  // Whether a step is skipped or passed over, nothing is learned from it.
  ASSERT_EQ(run_.train(sets("rewound", "rewind")).exit_code, 0);
  EXPECT_EQ(run_.metrics("run").back(), run_.metrics("rewound").back());
}

TEST_P(BadSteps, RewindPassesOverTheBatchAlsoInARunThatIsKilled) {
  EXPECT_THAT(run_.train(sets("whole", "rewind")),
              Exits(0, ": going back to " + run_.at("whole/checkpoints/step-")));
  const std::vector<std::string> whole = run_.metrics("whole");
  EXPECT_EQ(whole.size(), 40U);
  EXPECT_GE(skipped(whole), 1);
  for (const std::string& line : whole) {
    EXPECT_THAT(line, Not(HasSubstr("null")));
    EXPECT_NE(line.find("\"loss\"") == std::string::npos,
              line.find("\"skipped\":true") == std::string::npos)
        << line;
  }

  std::vector<std::string> command = run_.command(sets("run", "rewind"));
  command.insert(command.end(), {"--restarts", "2"});
  Process killed(command, run_.options());
  ASSERT_TRUE(killed.shows("going back to")) << killed.err();
  kill(rank_process(run_.mark(), 0), SIGKILL);
  EXPECT_EQ(killed.wait().exit_code, 0) << killed.err();
  EXPECT_THAT(run_.metrics("run"), ElementsAreArray(whole));
  EXPECT_THAT(run_.survivors(), IsEmpty());
}

// What a checkpoint brings back lies where the graph of a whole step reads it.
TEST_P(BadSteps, RewindGoesOnWithReplays) {
  std::vector<std::string> replayed = sets("replayed", "rewind");
  replayed.emplace_back("graph.type=full_iteration");
  EXPECT_THAT(run_.train(replayed),
              Exits(0, ": going back to " + run_.at("replayed/checkpoints/step-")));
  ASSERT_EQ(run_.train(sets("eager", "rewind")).exit_code, 0);
  EXPECT_THAT(run_.metrics("replayed"), ElementsAreArray(run_.metrics("eager")));
}

// Neither a rewind nor an update that is left out leaves a weight whose packed form is another's.
TEST_P(BadSteps, PreparedWeightsFollowTheParameters) {
  for (const std::string on_bad_step : {"skip", "rewind"}) {
    std::vector<std::string> plain = sets("plain_" + on_bad_step, on_bad_step);
    plain.insert(plain.end(), {"device.type=cpu", "precision.compute=bf16"});
    std::vector<std::string> prepared = sets("prepared_" + on_bad_step, on_bad_step);
    prepared.insert(
        prepared.end(),
        {"device.type=cpu", "precision.compute=bf16", "precision.prepare_weights=true"});
    ASSERT_EQ(run_.train(plain).exit_code, 0);
    const ProcessResult result = run_.train(prepared);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_GE(skipped(run_.metrics("prepared_" + on_bad_step)), 1);
    EXPECT_THAT(run_.metrics("prepared_" + on_bad_step),
                ElementsAreArray(run_.metrics("plain_" + on_bad_step)));
  }
}

TEST_P(BadSteps, TooManyInARowEndTheRun) {
  for (const std::string on_bad_step : {"skip", "rewind"}) {
    std::vector<std::string> more = sets(on_bad_step, on_bad_step);
    more.emplace_back("check.bad_steps=0");
    const ProcessResult result = run_.train(more);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.last_error(), HasSubstr("more than check.bad_steps = 0 in a row"));
    // The lines of all steps before it are there, also where a report was not due.
    const std::string bad =
        "the loss of step " + std::to_string(run_.metrics(on_bad_step).size() + 1);
    EXPECT_THAT(result.last_error(), HasSubstr(on_bad_step == "skip" ? bad : ""));
  }
}

// Each update breaks the parameters, and the step after it shows that. However often saves are due,
// the run ends, and what was good stays.
TEST_P(BadSteps, WhatDivergesForGoodEndsTheRun) {
  const auto rising = [](int steps, const std::string& rate) {
    std::vector<std::string> sets = until(steps, rate, "rewind");
    sets.insert(sets.end(),
                {"checkpoint.every_steps=2", "check.loss_rise=1.3", "check.loss_window=4"});
    return sets;
  };
  ASSERT_EQ(run_.train(rising(6, "1e-3")).exit_code, 0);
  EXPECT_THAT(train_from(6, rising(40, "1e30")),
              EndsOn(1, "more than check.bad_steps = 3 in a row"));
  EXPECT_THAT(run_.checkpoints("run"), Contains("step-6"));
}

// The update of step 5 breaks the parameters, they are saved, and only the next step shows it.
TEST_P(BadSteps, ACheckpointWithWhichNoBatchIsGoodIsGivenUp) {
  ASSERT_EQ(run_.train(until(4, "1e-3", "rewind")).exit_code, 0);
  ASSERT_EQ(train_from(4, until(5, "1e30", "rewind")).exit_code, 0);
  EXPECT_THAT(train_from(5, until(12, "1e-3", "rewind")),
              Exits(0,
                    "no batch has a good loss with the parameters of ",
                    ": going back to " + run_.at("run/checkpoints/step-4")));
  EXPECT_TRUE(std::filesystem::is_directory(run_.at("run/checkpoints/step-5.bad")));
  EXPECT_EQ(run_.metrics("run").size(), 12U);
  EXPECT_EQ(skipped(run_.metrics("run")), 3) << "what broke them, and both batches";
}

// An update that leaves no parameter finite: neither its copy is saved nor the run ended for that.
TEST_P(BadSteps, AnAsynchronousSaveOfBrokenParametersGoesBackToo) {
  const auto sets = [](int steps, const std::string& rate) {
    std::vector<std::string> sets = until(steps, rate, "rewind");
    sets.insert(
        sets.end(),
        {"optimizer.rule.type=sgd", "checkpoint.asynchronous=true", "checkpoint.failures=1"});
    return sets;
  };
  ASSERT_EQ(run_.train(sets(4, "1e-3")).exit_code, 0);
  std::vector<std::string> breaking = sets(12, "1e38");
  breaking.emplace_back("optimizer.rule.weight_decay=1e38");
  const ProcessResult result = train_from(4, breaking);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr(": going back to " + run_.at("run/checkpoints/step-4")));
  EXPECT_THAT(result.last_error(),
              AllOf(HasSubstr("more than check.bad_steps = 3 in a row"),
                    HasSubstr("the newest checkpoint before it is ")));
  EXPECT_THAT(run_.checkpoints("run"), AllOf(Contains("step-4"), Not(Contains("step-5"))));
}

// Parameters that no step has tried push no older ones out.
TEST_P(BadSteps, NothingIsSavedBetweenBadStepsThatAreLeftOut) {
  ASSERT_EQ(run_.train(until(4, "1e-3", "skip")).exit_code, 0);
  EXPECT_THAT(train_from(4, until(12, "1e30", "skip")),
              EndsOn(1, "step-5, and no step was good with its parameters; a lower learning rate"));
  EXPECT_THAT(run_.checkpoints("run"), AllOf(Contains("step-4"), Not(Contains("step-6"))));
  EXPECT_THAT(run_.train(until(6, "1e-3", "skip")),
              Exits(0, "step 6 was bad, and so may be the parameters that its check"));
  EXPECT_THAT(run_.checkpoints("run"), Contains("step-6"));
}

// A loss that stays where it is says nothing when each update is left out. After some steps the
// last norm of one rank gives infinite gradients, whatever the batch.
TEST_P(BadSteps, GradientsThatAreNotFiniteEndTheRun) {
  const bool pipeline = std::string_view(GetParam()) == "parallel.pipeline=2";
  for (const std::string on_bad_step : {"stop", "skip", "rewind"}) {
    const ProcessResult result =
        run_.train(TinyRun::steps(40,
                                  on_bad_step,
                                  {GetParam(),
                                   broken_plugins(),
                                   "model.head.norm.type=test_broken_norm",
                                   "model.head.norm.how=infinite",
                                   "model.head.norm.backward=true",
                                   std::string("model.head.norm.rank=") + (pipeline ? "1" : "0"),
                                   "checkpoint.every_steps=1",
                                   "check.on_bad_step=" + on_bad_step}));
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_THAT(result.last_error(), HasSubstr("the gradients of step "));
    EXPECT_THAT(result.last_error(), HasSubstr(" are not finite"));
    if (on_bad_step == "stop") continue;
    EXPECT_THAT(result.last_error(), HasSubstr("more than check.bad_steps = 3 in a row"));
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts,
                         BadSteps,
                         ::testing::Values("parallel.data=1",
                                           "parallel.data=2",
                                           "parallel.pipeline=2"));

TEST(BadStepsConfiguration, WhatCannotWorkIsRefused) {
  const TinyRun run;
  EXPECT_THAT(
      run.train(TinyRun::steps(5, "run", {"check.on_bad_step=rewind", "checkpoint.every_steps=0"})),
      Exits(2, "has no checkpoint to go back to: set checkpoint.every_step"));
  const auto unsaved = [&](const std::string& every_steps) {
    return run.train(TinyRun::steps(5,
                                    "run",
                                    {"check.on_bad_step=rewind",
                                     "checkpoint.save=false",
                                     "checkpoint.every_steps=" + every_steps}));
  };
  EXPECT_THAT(unsaved("2").err, HasSubstr("to go back to: set checkpoint.save = true, or choose"));
  EXPECT_THAT(unsaved("0").err, HasSubstr("checkpoint.every_steps and checkpoint.save = true, or"));
  EXPECT_THAT(run.train(TinyRun::steps(5, "run", {"check.loss_rise=0.5"})),
              Exits(2, "loss_rise = 0.5: every loss that does not fall would be bad"));
}

}  // namespace bad_steps_test
}  // namespace tessera::testing
