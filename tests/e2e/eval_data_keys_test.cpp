// What an evaluation takes from the run that it measures: the keys of [data] that decide what its
// samples are.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "program_support.hpp"

namespace tessera::testing {
namespace eval_data_keys_test {

using Words = std::vector<std::string>;

constexpr const char* kConfig = R"(schema = 1
[run]
name = "tiny"
steps = 1
seed = 11
log_every_steps = 1
[device]
threads = 1
[comm]
timeout_s = 20
[batch]
global = 2
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
vocab_multiple = 16
[optimizer]
type = "replicated"
[lr]
type = "constant"
peak = 0.01
[observers.metrics]
)";

class EvalDataKeys : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write("vocab.txt",
                  "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nking\nqueen\nday\nnight\nis\n?\n");
  }
  ProcessResult run(const Words& words) const {
    return run_tessera(words, {.environment = {}, .folder = folder_.path().string()});
  }
  void train(const std::string& name, const std::string& more) const {
    folder_.write(name + ".toml", kConfig + more);
    const ProcessResult trained = run({"train", name + ".toml", "--set", "run.out=" + name});
    ASSERT_EQ(trained.exit_code, 0) << trained.err;
  }
  // The scores of all samples, as text: other samples have others.
  std::string scores(const std::string& task, const std::string& data, Words more) const {
    static int files = 0;
    const std::string file = fmt::format("{}.jsonl", files++);
    more.insert(more.begin(), {"eval", task, "--checkpoint", task, "--data", data});
    more.insert(more.end(), {"--scores", file});
    const ProcessResult result = run(more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return folder_.read(file);
  }
  TestFolder folder_;
};

TEST_F(EvalDataKeys, ClassesAreTheRuns) {
  folder_.write("c.jsonl",
                R"({"body": "the king", "of": "day"})"
                "\n"
                R"({"body": "the queen", "of": "night"})");
  train("classes",
        "[model.head]\ntype = \"classification_head\"\nclasses = 2\n"
        "[data]\ntype = \"classes\"\npath = [\"c.jsonl\"]\nclasses = [\"night\", \"day\"]\n"
        "text = \"body\"\nlabel = \"of\"\n");
  EXPECT_EQ(std::ranges::count(scores("classes", "c.jsonl", {}), '\n'), 2);
  EXPECT_THAT(run({"eval",
                   "classes",
                   "--checkpoint",
                   "classes",
                   "--data",
                   "c.jsonl",
                   "--classes",
                   "[\"day\", \"night\"]"}),
              Exits(2,
                    "classes: day, night; the head's scores are those of the run's data.classes: "
                    "night, day"));
}

// A question of 6 tokens that is cut after 3, so that windows have 10 of the 14 tokens.
TEST_F(EvalDataKeys, SquadsAreTheRuns) {
  const std::string context = "the king is the queen day is night the queen is the king ?";
  for (const char* file : {"train.json", "squad.json"}) {
    folder_.write(file,
                  "{\"data\": [{\"paragraphs\": [{\"context\": \"" + context +
                      "\", \"qas\": [{\"id\": \"a\", \"question\": \"is the king the queen ?\", "
                      "\"answers\": [{\"text\": \"queen\", \"answer_start\": 16}]}]}]}]}");
  }
  train("squad",
        "[model.head]\ntype = \"span_head\"\n"
        "[data]\ntype = \"squad\"\npath = [\"train.json\"]\nvalidation_path = [\"squad.json\"]\n"
        "question = 3\nstride = 2\n"
        "[validation]\nevery_steps = 1\n"
        "[evaluations.dev]\ntype = \"squad\"\ndata = \"squad.json\"\n");
  const auto windows = [](const std::string& lines) { return std::ranges::count(lines, '\n'); };
  const std::string runs = scores("squad", "squad.json", {});
  EXPECT_EQ(windows(runs), 3);  // from 0, 2 and 4 on
  EXPECT_EQ(runs, scores("squad", "squad.json", {"--question", "3", "--stride", "2"}));
  EXPECT_EQ(windows(scores("squad", "squad.json", {"--stride", "4"})), 2);
  EXPECT_EQ(windows(scores("squad", "squad.json", {"--question", "2", "--stride", "1"})), 4);
  // An evaluation that the run has itself.
  EXPECT_THAT(folder_.read("squad/metrics.jsonl"), ::testing::HasSubstr("\"dev.windows\":3.0"));
}

TEST_F(EvalDataKeys, RacesAreTheRuns) {
  folder_.write("race/1.txt",
                R"({"article": "the king is day", "questions": ["is the queen night ?"],)"
                R"( "options": [["king", "queen"]], "answers": ["A"]})");
  train("race",
        "[model.head]\ntype = \"choice_head\"\nchoices = 2\n"
        "[data]\ntype = \"race\"\npath = [\"race\"]\nquestion = 2\n");
  const std::string runs = scores("race", "race", {});
  EXPECT_EQ(runs, scores("race", "race", {"--question", "2"}));
  EXPECT_NE(runs, scores("race", "race", {"--question", "4"}));
}

TEST_F(EvalDataKeys, QqpsAreTheRuns) {
  folder_.write("qqp.tsv",
                "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
                "0\t1\t2\tis the king ?\tthe queen\t1\n0\t1\n0\t1\t2\tday\tnight\t0\n");
  train("qqp",
        "[model.head]\ntype = \"classification_head\"\nclasses = 2\n"
        "[data]\ntype = \"qqp\"\npath = [\"qqp.tsv\"]\nbad_lines = \"skip\"\n");
  EXPECT_EQ(scores("qqp", "qqp.tsv", {}), scores("qqp", "qqp.tsv", {"--bad_lines", "skip"}));
  EXPECT_THAT(
      run({"eval", "qqp", "--checkpoint", "qqp", "--data", "qqp.tsv", "--bad_lines", "error"}),
      Exits(2, "qqp.tsv:3: 2 columns"));
}

}  // namespace eval_data_keys_test
}  // namespace tessera::testing
