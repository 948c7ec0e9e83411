// `tessera eval`: the same numbers on one rank and under every layout, and those of the model's
// own logits.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "train_support.hpp"

namespace tessera::testing {
namespace eval_test {

using ::testing::HasSubstr;

class Eval : public ::testing::Test {
 protected:
  void SetUp() override {
    const ProcessResult trained = run_.train(TinyRun::steps(
        2, "run", {"device.type=reference", "precision.main=fp64", "precision.compute=fp64"}));
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
    std::string lines;
    for (const std::string text : {"abc", "the quick brown fox jumps over the lazy dog", "x y z"}) {
      lines += "{\"text\": \"" + text + "\"}\n";
    }
    for (int i = 0; i < 9; ++i) lines += fmt::format("{{\"text\": \"number {} {}\"}}\n", i, i * i);
    data_ = run_.folder.write("documents.jsonl", lines);
  }
  ProcessResult eval(const std::string& task, std::vector<std::string> more) const {
    more.insert(more.begin(),
                {"eval", task, "--checkpoint", run_.at("run"), "--data", data_, "--json"});
    return run_tessera(more);
  }
  nlohmann::json object(std::vector<std::string> more) const {
    const ProcessResult result = eval("perplexity", std::move(more));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  }
  TinyRun run_;
  std::string data_;
};

TEST_F(Eval, GivesTheSameUnderEveryLayoutAndBatch) {
  using Words = std::vector<std::string>;
  // Of windows that overlap the head makes logits of a few rows; a batch of one text has few.
  const Words overlap = {"--window", "16", "--stride", "2"};
  const nlohmann::json one = object({}), overlapping = object(overlap);
  ASSERT_TRUE(one.is_object() && overlapping.is_object());
  EXPECT_EQ(one["documents"], 12);
  EXPECT_GT(one["nats"], 0);
  const auto expect_same = [&](const nlohmann::json& wanted, const Words& words) {
    const nlohmann::json other = object(words);
    ASSERT_TRUE(other.is_object());
    for (const auto& [name, value] : wanted.items()) {
      if (!value.is_number_float()) {
        EXPECT_EQ(other[name], value) << name;
      } else {
        EXPECT_NEAR(other[name].get<double>(), value.get<double>(), 1e-9 * value.get<double>())
            << name;
      }
    }
  };
  for (const Words& layout : {Words{"--batch", "1"},
                              Words{"--batch", "5"},
                              Words{"--ranks", "2"},
                              Words{"--ranks", "2", "--set", "parallel.tensor=2"},
                              Words{"--ranks", "2", "--set", "parallel.pipeline=2"},
                              Words{"--ranks", "2", "--set", "parallel.context=2"},
                              Words{"--ranks",
                                    "4",
                                    "--batch",
                                    "4",  // a batch of 2 has no more rows than are chosen
                                    "--set",
                                    "parallel.tensor=2",
                                    "--set",
                                    "parallel.sequence_parallel=true"}}) {
    SCOPED_TRACE(::testing::PrintToString(layout));
    expect_same(one, layout);
    Words both = layout;
    both.insert(both.end(), overlap.begin(), overlap.end());
    expect_same(overlapping, both);
  }
}

// A run that measures itself with another file, of a model that predicts further tokens as well.
TEST_F(Eval, TakesTheFileOfTheCommandAndModelsThatPredictAhead) {
  run_.folder.write("other.jsonl", "{\"text\": \"other text\"}\n");
  const ProcessResult trained =
      run_.train(TinyRun::steps(2,
                                "ahead",
                                {"device.type=reference",
                                 "precision.main=fp64",
                                 "precision.compute=fp64",
                                 "model.predict_ahead.type=multi_token_prediction",
                                 "model.predict_ahead.layers=1",
                                 "validation.every_steps=2",
                                 "validation.samples=2",
                                 "evaluations.a.type=perplexity",
                                 "evaluations.a.data=" + run_.at("other.jsonl")}));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(run_.metrics("ahead").back(), HasSubstr("\"a.documents\":1.0"));
  const auto measured = [&](std::vector<std::string> more) {
    more.insert(
        more.begin(),
        {"eval", "perplexity", "--checkpoint", run_.at("ahead"), "--data", data_, "--json"});
    const ProcessResult result = run_tessera(more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  };
  const nlohmann::json one = measured({});
  ASSERT_TRUE(one.is_object());
  EXPECT_EQ(one["documents"], 12);
  const nlohmann::json two = measured({"--ranks", "2", "--set", "parallel.pipeline=2"});
  ASSERT_TRUE(two.is_object());
  EXPECT_NEAR(two["nats"].get<double>(), one["nats"].get<double>(), 1e-9);
  // The head of a depth has inputs of its own; logits are made of a few rows here.
  const std::vector<std::string> overlap = {"--window", "16", "--stride", "2"};
  const nlohmann::json some = measured(overlap);
  ASSERT_TRUE(some.is_object());
  for (const char* cut : {"parallel.pipeline=2", "parallel.tensor=2", "parallel.context=2"}) {
    std::vector<std::string> words = {"--ranks", "2", "--set", cut};
    words.insert(words.end(), overlap.begin(), overlap.end());
    const nlohmann::json other = measured(words);
    ASSERT_TRUE(other.is_object()) << cut;
    EXPECT_NEAR(other["nats"].get<double>(), some["nats"].get<double>(), 1e-9) << cut;
  }
}

TEST_F(Eval, GivesWhatTheLogitsSay) {
  const std::string text = "the quick";
  double nats = 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    const ProcessResult shown = run_tessera(
        {"generate", "--checkpoint", run_.at("run"), "--prompt", text.substr(0, i), "--logits"});
    ASSERT_EQ(shown.exit_code, 0) << shown.err;
    const std::vector<double> logits = nlohmann::json::parse(shown.out);
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    nats -= logits.at(static_cast<u8>(text[i])) - std::log(sum);
  }
  run_.folder.write("documents.jsonl", "{\"text\": \"" + text + "\"}\n");
  EXPECT_NEAR(object({})["nats"].get<double>(), nats, 1e-5);  // logits are shown as fp32
}

TEST_F(Eval, SaysWhatIsWrong) {
  EXPECT_THAT(eval("perplexty", {}), Exits(2, "perplexity"));
  EXPECT_THAT(eval("perplexity", {"--windo", "8"}), Exits(2, "window"));
  EXPECT_THAT(eval("perplexity", {"--window"}), Exits(2, "--window: its value is missing"));
  EXPECT_THAT(eval("perplexity", {"window"}), Exits(2, "--KEY VALUE"));
  EXPECT_THAT(eval("perplexity", {"--window", "100000"}), Exits(2, "window = 100000"));
  EXPECT_THAT(eval("perplexity", {"--scores", run_.at("scores.jsonl")}),
              Exits(2, "--scores: this evaluation is of texts, not of samples"));
  run_.folder.write("documents.jsonl", "{\"text\": \"a\"}\n{\"text\": 7}\n");
  for (const char* ranks : {"1", "2"}) {
    EXPECT_THAT(eval("perplexity", {"--ranks", ranks}),
                Exits(2, "documents.jsonl:2: \"text\" is 7, which is no text"));
  }
}

}  // namespace eval_test
}  // namespace tessera::testing
