// `tessera eval` of several models: ensembles, the median of several runs, and what it finds out
// before it measures.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "program_support.hpp"

namespace tessera::testing {
namespace eval_models_test {

using Words = std::vector<std::string>;
using ::testing::IsEmpty;

constexpr const char* kConfig = R"(schema = 1
[run]
name = "tiny"
seed = 11
log_every_steps = 1
[device]
threads = 1
[comm]
timeout_s = 20
[batch]
global = 4
micro = 2
sequence_length = 16
[tokenizer]
type = "wordpiece"
path = "vocab.txt"
[model]
type = "bert"
layers = 1
hidden = 16
heads = 2
dropout = 0.0
vocab_multiple = 16
[model.head]
type = "classification_head"
classes = 2
[optimizer]
type = "replicated"
[lr]
type = "constant"
peak = 0.01
[data]
type = "qqp"
[observers.metrics]
)";

std::string pairs(const std::vector<int>& labels) {
  const char* texts[] = {"the king", "the queen", "day", "night is"};
  std::string lines = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n";
  for (std::size_t i = 0; i < labels.size(); ++i) {
    lines += fmt::format(
        "{0}\t{0}\t{0}\t{1} is ?\t{2}\t{3}\n", i, texts[i % 4], texts[(i / 4 + i) % 4], labels[i]);
  }
  return lines;
}

// Two models that say the same of every pair: "sure" that its label is 0, with a probability of
// nearly 1, and "unsure" that it is 1, of 0.75 to 0.9. Three of dev.tsv's four labels are 0, and
// four of test.tsv's five are 1.
class EvalModels : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string vocabulary =
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nking\nqueen\nday\nnight\nis\n?\n";
    folder_.write("vocab.txt", vocabulary);
    folder_.write("larger/vocab.txt", vocabulary + "x\n");
    folder_.write("tiny.toml", kConfig);
    folder_.write("zeros.tsv", pairs(std::vector<int>(16, 0)));
    folder_.write("ones.tsv", pairs(std::vector<int>(16, 1)));
    folder_.write("dev.tsv", pairs({0, 0, 0, 1}));
    folder_.write("test.tsv", pairs({1, 0, 1, 1, 1}));
    EXPECT_LT(loss_of("sure", {"run.steps=40", "data.path=[\"zeros.tsv\"]", "lr.peak=0.02"}), 1e-3);
    const double loss = loss_of("unsure", {"run.steps=8", "data.path=[\"ones.tsv\"]"});
    EXPECT_TRUE(loss > 0.11 && loss < 0.28) << loss;
  }
  // Trains a model; the loss of its last step.
  double loss_of(const std::string& name, const Words& sets) const {
    Words words = {"train", "tiny.toml", "--set", "run.out=" + name};
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    const ProcessResult trained = run(words);
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
    std::string last;
    std::ifstream lines(folder_.at(name + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) last = line;
    return nlohmann::json::parse(last).at("loss");
  }
  ProcessResult run(const Words& words) const {
    return run_tessera(words, {.environment = {}, .folder = folder_.path().string()});
  }
  ProcessResult eval(const std::string& checkpoint, const Words& more) const {
    Words words = {"eval", "qqp", "--checkpoint", checkpoint, "--data", "dev.tsv", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  // What it prints, an object a line.
  std::vector<nlohmann::json> found(const std::string& checkpoint, const Words& more) const {
    const ProcessResult result = eval(checkpoint, more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<nlohmann::json> objects;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      objects.push_back(nlohmann::json::parse(line));
    }
    return objects;
  }
  // Of each object "checkpoint data accuracy", or the median's "name number run".
  Words told(const std::string& checkpoint, const Words& more) const {
    Words texts;
    for (const nlohmann::json& object : found(checkpoint, more)) {
      const bool median = object.contains("median");
      const auto text = [&](const char* key) { return object.at(key).get<std::string>(); };
      texts.push_back(median ? fmt::format("{} {} {}",
                                           text("median_of"),
                                           object.at("median").get<double>(),
                                           text("median_run"))
                             : fmt::format("{} {} {}",
                                           text("checkpoint"),
                                           text("data"),
                                           object.at("accuracy").get<double>()));
    }
    return texts;
  }
  TestFolder folder_;
};

// By hand, with p the second model's probability of 1: the mean probability of 0 is
// (1 + (1 - p)) / 2 > 1/2 of two models, and (1 + 2 (1 - p)) / 3 < 1/2 of three. Means of logits
// would be the first model's in both cases.
TEST_F(EvalModels, AnEnsembleAveragesProbabilities) {
  EXPECT_EQ(told("sure", {}), Words{"sure dev.tsv 0.75"});
  EXPECT_EQ(told("unsure", {}), Words{"unsure dev.tsv 0.25"});
  for (const char* ranks : {"1", "2"}) {
    const Words on = {"--ranks", ranks, "--ensemble"};
    const auto with = [&](Words more) {
      more.insert(more.begin(), on.begin(), on.end());
      return more;
    };
    EXPECT_EQ(told("sure", with({"unsure"})), Words{"sure dev.tsv 0.75"});
    EXPECT_EQ(told("unsure", with({"sure"})), Words{"unsure dev.tsv 0.75"});
    EXPECT_EQ(told("sure", with({"unsure", "unsure"})), Words{"sure dev.tsv 0.25"});
    EXPECT_EQ(told("unsure", with({"unsure"})), Words{"unsure dev.tsv 0.25"});
  }
  const auto objects = found("sure", {"--ensemble", "unsure", "unsure"});
  ASSERT_EQ(objects.size(), 1U);
  EXPECT_EQ(objects[0].at("ensemble"), (Words{"unsure", "unsure"}));
}

// Of an even number of runs the lower of the two in the middle. Five models on two ranks have more
// groups than a rank has places for at once.
TEST_F(EvalModels, SeedsNameTheMedianAndTestIt) {
  EXPECT_EQ(told("sure", {"--seeds", "unsure", "sure", "--test", "test.tsv"}),
            (Words{"sure dev.tsv 0.75",
                   "unsure dev.tsv 0.25",
                   "sure dev.tsv 0.75",
                   "accuracy 0.75 sure",
                   "sure test.tsv 0.2"}));
  EXPECT_EQ(told("sure", {"--seeds", "unsure", "--test", "test.tsv"}),
            (Words{"sure dev.tsv 0.75",
                   "unsure dev.tsv 0.25",
                   "accuracy 0.25 unsure",
                   "unsure test.tsv 0.8"}));
  const Words five = {"--seeds", "sure", "unsure", "unsure", "sure", "--ranks", "2"};
  EXPECT_EQ(told("unsure", five),
            (Words{"unsure dev.tsv 0.25",
                   "sure dev.tsv 0.75",
                   "unsure dev.tsv 0.25",
                   "unsure dev.tsv 0.25",
                   "sure dev.tsv 0.75",
                   "accuracy 0.25 unsure"}));
}

// By the data's lines; of an ensemble the means of probabilities.
TEST_F(EvalModels, ScoresOfSamplesAreWritten) {
  const auto scores = [&](const std::string& checkpoint, const std::string& file, Words more) {
    more.insert(more.end(), {"--scores", file});
    EXPECT_EQ(found(checkpoint, more).size(), 1U);
    std::vector<std::vector<double>> of_samples;
    std::istringstream lines(folder_.read(file));
    for (std::string line; std::getline(lines, line);) {
      const auto object = nlohmann::json::parse(line);
      EXPECT_THAT(object.at("sample").get<std::string>(),
                  ::testing::EndsWith(fmt::format("dev.tsv:{}", of_samples.size() + 2)));
      of_samples.push_back(object.at("scores").get<std::vector<double>>());
    }
    return of_samples;
  };
  const auto one = scores("sure", "a.jsonl", {}), other = scores("unsure", "b.jsonl", {});
  const auto mean = scores("sure", "c.jsonl", {"--ensemble", "unsure"});
  const auto shared = scores("sure", "d.jsonl", {"--ranks", "2", "--ensemble", "unsure"});
  const auto probability = [](const std::vector<double>& of) {
    return 1 / (1 + std::exp(of[1] - of[0]));
  };
  ASSERT_EQ(one.size(), 4U);
  ASSERT_EQ(mean.size(), 4U);
  ASSERT_EQ(shared.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_GT(one[i][0], one[i][1]);
    EXPECT_LT(other[i][0], other[i][1]);
    EXPECT_NEAR(mean[i][0], (probability(one[i]) + probability(other[i])) / 2, 1e-6);
    EXPECT_NEAR(mean[i][0] + mean[i][1], 1, 1e-6);
    EXPECT_NEAR(shared[i][0], mean[i][0], 1e-6);
  }
  const auto expect_refused = [&](const Words& more, const std::string& part) {
    const ProcessResult result = eval("sure", more);
    EXPECT_THAT(result, Exits(2, part));
    EXPECT_THAT(result.out, IsEmpty());
  };
  expect_refused({"--scores", "a.jsonl"}, "a.jsonl: it is there already; name a new file");
  expect_refused({"--scores", "no/a.jsonl"}, "there is no folder no");
  expect_refused({"--scores", "e.jsonl", "--seeds", "unsure"}, "--seeds are several");
  const Words embed = {"eval", "embed", "--checkpoint", "sure", "--data", "dev.tsv"};
  Words words = embed;
  words.insert(words.end(), {"--scores", "e.jsonl"});
  EXPECT_THAT(run(words), Exits(2, "eval embed: it prints vectors; --scores has no place"));
  EXPECT_FALSE(std::filesystem::exists(folder_.at("e.jsonl")));
}

// Nothing is measured before.
TEST_F(EvalModels, WhatIsWrongEndsTheCommandAtOnce) {
  loss_of("other", {"run.steps=1", "data.path=[\"ones.tsv\"]", "tokenizer.path=larger/vocab.txt"});
  EXPECT_EQ(told("sure", {"--seeds", "other"}).size(), 3U);
  folder_.write("bad.tsv", pairs({0, 2}));
  const auto expect_refused = [&](const Words& more, const Words& parts) {
    for (const char* ranks : {"1", "2"}) {
      Words words = more;
      words.insert(words.end(), {"--ranks", ranks});
      const ProcessResult result = eval("sure", words);
      EXPECT_EQ(result.exit_code, 2) << result.err;
      EXPECT_THAT(result.out, IsEmpty());
      for (const std::string& part : parts) EXPECT_THAT(result.err, ::testing::HasSubstr(part));
    }
  };
  expect_refused({"--seeds", "unsure", "nowhere"}, {"nowhere"});
  expect_refused({"--ensemble", "unsure", "nowhere"}, {"nowhere"});
  expect_refused({"--seeds", "unsure", "--test", "nothing.tsv"}, {"nothing.tsv"});
  expect_refused({"--seeds", "unsure", "--test", "bad.tsv"},
                 {"bad.tsv:3: \"is_duplicate\" is \"2\""});
  expect_refused({"--ensemble", "unsure", "other"},
                 {"--ensemble other: it reads samples of 16 tokens by \"wordpiece: 13 tokens",
                  "and sure reads samples of 16 tokens by \"wordpiece: 12 tokens"});
  expect_refused({"--test", "test.tsv"}, {"--test is for the median of --seeds"});
  expect_refused({"--ensemble", "sure", "--seeds", "sure"}, {"give one of them"});
  EXPECT_THAT(
      run({"eval", "embed", "--checkpoint", "sure", "--data", "dev.tsv", "--seeds", "sure"}),
      Exits(2, "eval embed: --seeds is for evaluations"));
}

// A run that saves while the ranks start: here each rank has a folder of its own.
TEST_F(EvalModels, RanksThatFindOtherCheckpointsEnd) {
  const auto copy = [&](const std::string& from, const std::string& to) {
    std::filesystem::create_directories(folder_.at(to));
    std::filesystem::copy(
        folder_.at(from), folder_.at(to), std::filesystem::copy_options::recursive);
  };
  for (const std::string rank : {"0", "1"}) {
    copy("unsure", rank + "/unsure");
    copy("sure", rank + "/sure");
  }
  std::filesystem::rename(folder_.at("1/sure/checkpoints/step-40"),
                          folder_.at("1/sure/checkpoints/step-41"));
  for (const char* flag : {"--seeds", "--ensemble"}) {
    Words words = {TESSERA_BUILD_DIR "/tests/launch_probe", "2", "apart", tessera_program()};
    words.insert(words.end(), {"eval", "qqp", "--checkpoint", "unsure"});
    words.insert(words.end(), {"--data", folder_.at("dev.tsv"), "--ranks", "2", flag, "sure"});
    const ProcessResult result =
        run_process(words, {.environment = {}, .folder = folder_.path().string()});
    EXPECT_THAT(result, Exits(2, "checkpoint of sure", "step-40", "step-41"));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

}  // namespace eval_models_test
}  // namespace tessera::testing
