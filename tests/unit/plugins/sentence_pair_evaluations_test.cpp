// Evaluations of the tasks that BERT is fine-tuned for, over scores that are made up: what is
// found, and what it is worth by the rules of each task, worked out by hand.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tessera/evaluation.hpp"
#include "tests/unit/plugins/sentence_pairs.hpp"

namespace tessera {
namespace sentence_pair_evaluations_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SentencePairEvaluations : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!TaskFiles::can_tokenize()) GTEST_SKIP() << "this build has no wordpiece";
  }
  std::shared_ptr<EvaluationTask> open(const std::string& type,
                                       const std::string& keys,
                                       i64 length = 8) const {
    EvaluationArguments arguments;
    arguments.tokenizer = files_.tokenizer();
    arguments.sequence_length = length;
    return make_plugin<EvaluationTask>(type, keys, arguments);
  }
  std::string key(const std::string& name, const std::string& key = "data") const {
    return key + " = \"" + files_.path(name) + "\"\n";
  }
  static std::vector<std::string> names(const EvaluationResults& results) {
    std::vector<std::string> all;
    for (const auto& [name, value] : results) all.push_back(name);
    return all;
  }
  static double number(const EvaluationResults& results, const std::string& name) {
    for (const auto& [known, value] : results) {
      if (known != name) continue;
      const auto* whole = std::get_if<i64>(&value.data);
      return whole != nullptr ? static_cast<double>(*whole) : std::get<double>(value.data);
    }
    ADD_FAILURE() << name;
    return 0;
  }

  // a 5, cat 6, sat 7, on 8, the 9, mat 10, . 11, , 12, ! 13, in 14, 1990 15, ##s 16, - 17, is 18
  TaskFiles files_{"a cat sat on the mat . , ! in 1990 ##s - is"};
};

// --- mnli ---

std::string mnli(const std::vector<std::string>& labels) {
  std::string text = "index\tb\tc\td\te\tf\tg\th\tsentence1\tsentence2\tgold_label\n";
  for (const std::string& label : labels)
    text += "0\tb\tc\td\te\tf\tg\th\tcat\tsat\t" + label + "\n";
  return text;
}

TEST_F(SentencePairEvaluations, MnliHasTheAccuracyOfBothFiles) {
  files_.write("m.tsv", mnli({"contradiction", "entailment", "neutral", "neutral"}));
  files_.write("mm.tsv", mnli({"entailment", "entailment"}));
  const auto task = open("mnli", key("m.tsv") + key("mm.tsv", "mismatched"));
  const auto samples = task->samples();
  ASSERT_EQ(samples->size(SampleSet::test), 6);
  EXPECT_EQ(samples->size(SampleSet::train), 0);
  EXPECT_THAT(read_fields_of(*samples, SampleSet::test, 2, 8)["tokens"],
              ElementsAre(2, 6, 3, 7, 3, 0, 0, 0));
  EXPECT_THAT(read_fields_of(*samples, SampleSet::test, 4, 8)["label"], ElementsAre(1));
  // Of equal scores the first is taken: right, right, wrong, right; wrong, right.
  const SampleScores scores = {
      {3, 2, 2}, {-5, -1, -2}, {1, 1, 1}, {0, 1, 2}, {4, 3, 3}, {0, .5, 0}};
  const EvaluationResults results = task->evaluate_samples(scores);
  EXPECT_THAT(names(results),
              ElementsAre("pairs", "accuracy", "mismatched_pairs", "mismatched_accuracy"));
  EXPECT_EQ(number(results, "pairs"), 4);
  EXPECT_EQ(number(results, "accuracy"), 0.75);
  EXPECT_EQ(number(results, "mismatched_pairs"), 2);
  EXPECT_EQ(number(results, "mismatched_accuracy"), 0.5);
  EXPECT_THAT(
      names(open("mnli", key("m.tsv"))->evaluate_samples({scores.begin(), scores.begin() + 4})),
      ElementsAre("pairs", "accuracy"));
  // Either file alone: nothing says that it is the matched one.
  EXPECT_EQ(
      number(open("mnli", key("mm.tsv"))->evaluate_samples({scores.begin() + 4, scores.end()}),
             "accuracy"),
      0.5);
}

TEST_F(SentencePairEvaluations, YourOwnClassesHaveAnAccuracyAndEachItsRecall) {
  std::string lines;
  for (const char* label : {"up", "up", "up", "down"})
    lines += R"({"text": "cat", "label": ")" + std::string(label) + "\"}\n";
  files_.write("c.jsonl", lines);
  const auto task = open("classes", key("c.jsonl") + "classes = [\"up\", \"down\", \"on\"]\n");
  const EvaluationResults results =
      task->evaluate_samples({{2, 1, 0}, {0, 0, 1}, {1, 1, 1}, {0, 3, 1}});
  EXPECT_THAT(
      names(results),
      ElementsAre(
          "texts", "accuracy", "up_texts", "up_recall", "down_texts", "down_recall", "on_texts"));
  EXPECT_EQ(number(results, "accuracy"), 0.75);
  EXPECT_EQ(number(results, "up_texts"), 3);
  EXPECT_DOUBLE_EQ(number(results, "up_recall"), 2 / 3.0);
  EXPECT_EQ(number(results, "down_recall"), 1);
  EXPECT_EQ(number(results, "on_texts"), 0);
  EXPECT_THAT(files_.plain(text_of<ConfigError>([&] {
    open("classes",
         key("c.jsonl") +
             "classes = [\"up\", \"down\"]\n"
             "run_classes = [\"down\", \"up\"]\n");
  })),
              HasSubstr("classes: up, down; the head's scores are those of the run's data.classes: "
                        "down, up"));
}

TEST_F(SentencePairEvaluations, AnEnsembleAveragesProbabilitiesOfClasses) {
  files_.write("m.tsv", mnli({"entailment"}));
  const auto task = open("mnli", key("m.tsv"));
  const float two = std::log(2.0F), large = 1000;
  SampleScores one = {{large, large + two, large}}, other = {{0, -std::log(4.0F), 0}};
  task->to_average(one);
  task->to_average(other);
  EXPECT_NEAR(one[0][0], 1 / 4.0, 1e-4);  // as far as 1000 + ln 2 is exact
  EXPECT_NEAR(one[0][1], 2 / 4.0, 1e-4);
  EXPECT_NEAR(other[0][0], 4 / 9.0, 1e-6);
  EXPECT_NEAR(other[0][1], 1 / 9.0, 1e-6);
  // 1/2 + 1/9 against 1/4 + 4/9: what one of them finds, the mean does not.
  for (std::size_t i = 0; i < 3; ++i) one[0][i] = (one[0][i] + other[0][i]) / 2;
  EXPECT_EQ(number(task->evaluate_samples(one), "accuracy"), 0);
  EXPECT_EQ(number(task->evaluate_samples({{0, two, 0}}), "accuracy"), 1);
}

TEST_F(SentencePairEvaluations, ScoresOfAnotherHeadAreRefused) {
  files_.write("m.tsv", mnli({"entailment"}));
  const auto task = open("mnli", key("m.tsv"));
  EXPECT_THAT(text_of<ConfigError>([&] {
                task->evaluate_samples({{1, 2}});
              }),
              HasSubstr("the model's head gives 2 scores a sample, and the task needs 3 (one a "
                        "class)"));
  EXPECT_THAT(text_of<Error>([&] { task->evaluate_samples({}); }),
              HasSubstr("scores of 0 samples, and there are 1"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(text_of<Error>([&] {
                task->evaluate_samples({{1, nan, 2}});
              }),
              HasSubstr("the model's score of sample 0 is no number"));
}

// --- qqp ---

std::string qqp(const std::vector<int>& labels) {
  std::string text = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n";
  for (const int label : labels) text += fmt::format("0\t1\t2\tcat\tsat\t{}\n", label);
  return text;
}

TEST_F(SentencePairEvaluations, QqpHasAccuracyAndF1OfDuplicates) {
  const auto run = [&](const std::vector<int>& labels, const std::vector<int>& found) {
    files_.write("q.tsv", qqp(labels));
    SampleScores scores;
    for (const int one : found) scores.push_back({one == 0 ? 1.0F : 0.0F, one == 1 ? 1.0F : 0.0F});
    return open("qqp", key("q.tsv"))->evaluate_samples(scores);
  };
  // tp 2, fp 1, fn 2: precision 2/3, recall 2/4.
  EvaluationResults results = run({1, 1, 1, 1, 0, 0, 0}, {1, 1, 0, 0, 1, 0, 0});
  EXPECT_DOUBLE_EQ(number(results, "accuracy"), 4 / 7.0);
  EXPECT_DOUBLE_EQ(number(results, "f1"), 2 * (2 / 3.0) * (2 / 4.0) / (2 / 3.0 + 2 / 4.0));
  EXPECT_EQ(number(results, "pairs"), 7);
  results = run({0, 0}, {0, 0});  // none is found and none is there
  EXPECT_EQ(number(results, "accuracy"), 1);
  EXPECT_EQ(number(results, "f1"), 0);
  EXPECT_EQ(number(run({1, 0}, {0, 0}), "f1"), 0);
  EXPECT_EQ(number(run({1, 0}, {1, 0}), "f1"), 1);
}

TEST_F(SentencePairEvaluations, QqpSaysHowManyLinesItLeavesOut) {
  files_.write("q.tsv", qqp({1, 0}) + "3\t4\n");
  EXPECT_THAT(text_of<ConfigError>([&] { open("qqp", key("q.tsv")); }),
              HasSubstr("q.tsv:4: 2 columns, its first line has 6"));
  const auto task = open("qqp", key("q.tsv") + "bad_lines = \"skip\"\n");
  EXPECT_EQ(number(task->evaluate_samples({{0, 1}, {1, 0}}), "lines_left_out"), 1);
}

// --- race ---

TEST_F(SentencePairEvaluations, RaceHasTheAccuracyOfMiddleAndHigh) {
  const auto article = [](const std::string& answers) {
    std::string questions, options;
    for (const char c : answers) {
      if (c != '"' && c != ',') {
        questions += std::string(questions.empty() ? "" : ",") + "\"cat\"";
        options += std::string(options.empty() ? "" : ",") + R"(["a","on","in","mat"])";
      }
    }
    return R"({"article":"cat","questions":[)" + questions + "],\"options\":[" + options +
           "],\"answers\":[" + answers + "]}";
  };
  files_.write("test/middle/1.txt", article(R"("A","B")"));
  files_.write("test/middle/2.txt", article(R"("C")"));
  files_.write("test/high/1.txt", article(R"("D","D")"));
  const auto task = open("race", key("test"), 32);
  ASSERT_EQ(task->samples()->size(SampleSet::test), 5);
  const EvaluationResults results = task->evaluate_samples(
      {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 1, 0, 0}, {0, 0, 0, 1}, {0, 0, 1, 0}});
  EXPECT_EQ(number(results, "questions"), 5);
  EXPECT_DOUBLE_EQ(number(results, "accuracy"), 3 / 5.0);
  EXPECT_EQ(number(results, "middle_questions"), 3);
  EXPECT_DOUBLE_EQ(number(results, "middle_accuracy"), 2 / 3.0);
  EXPECT_EQ(number(results, "high_questions"), 2);
  EXPECT_EQ(number(results, "high_accuracy"), 0.5);
  EXPECT_THAT(
      names(open("race", key("test/high"), 32)->evaluate_samples({{0, 0, 0, 1}, {0, 0, 0, 1}})),
      ElementsAre("questions", "accuracy"));
  SampleScores scores = {{0, 0, 0, 0}};
  task->to_average(scores);
  EXPECT_THAT(scores[0], ElementsAre(.25F, .25F, .25F, .25F));
}

// --- squad ---

using Answers = std::vector<std::string>;

std::string quoted(const Answers& answers) {
  std::string text;
  for (const std::string& answer : answers) {
    text +=
        fmt::format(R"({}{{"text": "{}", "answer_start": 0}})", text.empty() ? "" : ", ", answer);
  }
  return text;
}

std::string asked(const Answers& answers, bool second_version) {
  std::string text = R"({"question": "is", "answers": [)" + quoted(answers) + "]";
  if (second_version)
    text += answers.empty() ? R"(, "is_impossible": true)" : R"(, "is_impossible": false)";
  return text + "}";
}

std::string squad(const std::string& context, const std::vector<std::string>& questions) {
  std::string all;
  for (const std::string& one : questions) all += (all.empty() ? "" : ", ") + one;
  return R"({"data": [{"paragraphs": [{"context": ")" + context + R"(", "qas": [)" + all + "]}]}]}";
}

class SquadEvaluation : public SentencePairEvaluations {
 protected:
  static constexpr i64 kLength = 24, kPlace = 3;  // [CLS] is [SEP], then the context

  // Logits of one window: these begins and ends, by their place in the context; -1 is [CLS].
  using Logits = std::vector<std::pair<i64, float>>;
  static std::vector<float> window(const Logits& begins,
                                   const Logits& ends,
                                   i64 length = kLength,
                                   float others = -9) {
    std::vector<float> scores(static_cast<std::size_t>(2 * length), others);
    const auto put = [&](const Logits& logits, i64 from) {
      for (const auto& [place, logit] : logits) {
        scores[static_cast<std::size_t>(from + (place < 0 ? 0 : kPlace + place))] = logit;
      }
    };
    put(begins, 0);
    put(ends, length);
    return scores;
  }
  std::shared_ptr<EvaluationTask> open_squad(const std::string& file,
                                             const std::string& keys = "",
                                             i64 length = kLength) const {
    files_.write("dev.json", file);
    return open("squad", key("dev.json") + "question = 4\n" + keys, length);
  }
  // Exact match and F1 where the model says that tokens `first` to `last` are the answer.
  std::pair<double, double> score(const std::string& context,
                                  i64 first,
                                  i64 last,
                                  const Answers& answers,
                                  bool second_version = false) const {
    const auto task = open_squad(squad(context, {asked(answers, second_version)}));
    const auto results = task->evaluate_samples({window({{first, 5}}, {{last, 5}})});
    return {number(results, "exact_match"), number(results, "f1")};
  }
};

const std::pair<double, double> kRight = {1, 1};

TEST_F(SquadEvaluation, AnswersAreComparedWithoutCasePunctuationAndArticles) {
  const std::string context = "The cat, a mat! sat on in 1990s-is";  // the cat , a mat ! sat ...
  EXPECT_EQ(score(context, 1, 1, {"cat"}), kRight);
  EXPECT_EQ(score(context, 1, 1, {"CAT"}), kRight);
  EXPECT_EQ(score(context, 0, 1, {"Cat"}), kRight);             // The
  EXPECT_EQ(score(context, 1, 1, {"an \\\"cat\\\""}), kRight);  // an
  EXPECT_EQ(score(context, 0, 5, {"cat mat"}), kRight);         // , a !
  EXPECT_EQ(score(context, 6, 7, {" sat \\t on "}), kRight);    // white space
  EXPECT_EQ(score(context, 6, 7, {"sa-t on"}), kRight);         // a mark is nothing, not a space
  EXPECT_EQ(score(context, 6, 6, {"sat_"}), kRight);            // "_" is one of ASCII's marks
  EXPECT_EQ(score(context, 0, 0, {"theatre"}).first, 0);        // only whole words are articles
  EXPECT_EQ(score(context, 1, 1, {"the—cat"}), (std::pair(0.0, 0.0)));  // "—cat", as marks of
                                                                        // ASCII alone go
}

TEST_F(SquadEvaluation, LettersBeyondAsciiHaveSmallOnesAndAreOfWords) {
  const std::string context = "cat \u00c9\u00c4 on";  // two letters without a token are one [UNK]
  EXPECT_EQ(score(context, 1, 1, {"\u00e9\u00e4"}), kRight);
  // A mark that is none of ASCII's stays; an article before it goes, one within a word does not.
  EXPECT_EQ(score(context, 1, 1, {"a \u00c9\u00c4"}), kRight);
  EXPECT_EQ(score(context, 1, 1, {"a\u00c9\u00c4"}), (std::pair(0.0, 0.0)));
  EXPECT_EQ(score("\u201Cthe\u201D cat", 0, 2, {"\u201C \u201D"}), kRight);
  EXPECT_EQ(score("cat on", 0, 1, {"cat\u00A0on"}), kRight);  // a space that does not break
}

TEST_F(SquadEvaluation, F1IsOfTheWordsThatBothHave) {
  const std::string context = "cat sat on mat mat in";
  // "cat sat on": 3 words, of which 2 are in an answer of 4: precision 2/3, recall 1/2.
  EXPECT_EQ(score(context, 0, 2, {"cat on in mat"}),
            std::pair(0.0, 2 * (2 / 3.0) * (2 / 4.0) / (2 / 3.0 + 2 / 4.0)));
  // A word counts as often as it is in both: "mat mat" against "mat": 1 of 2, 1 of 1.
  EXPECT_EQ(score(context, 3, 4, {"mat"}), std::pair(0.0, 2 * 0.5 * 1 / 1.5));
  EXPECT_EQ(score(context, 0, 0, {"in"}), std::pair(0.0, 0.0));
  // Order makes no difference to it.
  EXPECT_EQ(score(context, 0, 1, {"sat cat"}), std::pair(0.0, 1.0));
}

TEST_F(SquadEvaluation, TheBestOfTheAnswersCounts) {
  const std::string context = "cat sat on mat";
  EXPECT_EQ(score(context, 0, 1, {"on", "cat sat", "cat"}), kRight);
  // Each of the two has its own: no answer is equal, and the second has more words of it.
  EXPECT_EQ(score(context, 0, 1, {"cat on mat", "sat"}), std::pair(0.0, 2 * 0.5 * 1 / 1.5));
}

TEST_F(SquadEvaluation, AnswersHaveTheCharactersOfTheirTokens) {
  // in 1990 ##s - is
  EXPECT_EQ(score("(in 1990s-is)", 2, 2, {"1990"}, false).first, 1);
  EXPECT_EQ(score("(in 1990s-is)", 2, 3, {"1990s"}, false).first, 1);
  EXPECT_EQ(score("(in 1990s-is)", 5, 5, {"is"}, false).first, 1);
  EXPECT_EQ(score("(in 1990s-is)", 2, 5, {"1990s-is"}, false).first, 1);
  // An accent is of the letter before it.
  EXPECT_EQ(score("on\u0301-cat", 0, 0, {"on\u0301"}).first, 1);
  EXPECT_EQ(score("c\u0301at-on", 0, 0, {"c\u0301at"}).first, 1);
}

TEST_F(SquadEvaluation, AWordlessAnswerIsNoneInSecondVersionOnly) {
  const std::string context = "the cat";
  // "the" normalizes to nothing. In 1.1 it is equal to an answer that does, and shares no word.
  EXPECT_EQ(score(context, 0, 0, {"a"}, false), std::pair(1.0, 0.0));
  // In 2.0 such an answer does not count, and without another one "" is the answer.
  EXPECT_EQ(score(context, 0, 0, {"a"}, true), std::pair(1.0, 1.0));
  EXPECT_EQ(score(context, 0, 0, {"a", "cat"}, true), std::pair(0.0, 0.0));
  EXPECT_EQ(score(context, 1, 1, {"a", "cat"}, true), std::pair(1.0, 1.0));
}

TEST_F(SquadEvaluation, QuestionsWithoutAnAnswerHaveThatAnswer) {
  const std::string file =
      squad("cat sat on", {asked({}, true), asked({"cat"}, true), asked({"on"}, true)});
  const auto run = [&](const std::string& keys) {
    // By how much [CLS] is likelier than the best answer: 2, -2, 1.
    return open_squad(file, keys)
        ->evaluate_samples({window({{-1, 3}, {1, 2}}, {{-1, 3}, {1, 2}}),
                            window({{-1, 1}, {0, 2}}, {{-1, 1}, {0, 2}}),
                            window({{-1, 2}, {2, 2}}, {{-1, 2}, {2, 1}})});
  };
  EvaluationResults results = run("");
  EXPECT_THAT(names(results),
              ElementsAre("windows",
                          "questions",
                          "exact_match",
                          "f1",
                          "has_answer_questions",
                          "has_answer_exact_match",
                          "has_answer_f1",
                          "no_answer_questions",
                          "no_answer_exact_match",
                          "no_answer_f1"));
  EXPECT_DOUBLE_EQ(number(results, "exact_match"), 2 / 3.0);
  EXPECT_EQ(number(results, "has_answer_exact_match"), 0.5);
  EXPECT_EQ(number(results, "no_answer_f1"), 1);
  // "By more than": at a difference of 1 the answer is taken.
  results = run("null_threshold = 1.0\n");
  EXPECT_EQ(number(results, "exact_match"), 1);
  results = run("null_threshold = 2.0\n");
  EXPECT_EQ(number(results, "no_answer_exact_match"), 0);
  EXPECT_EQ(number(results, "has_answer_f1"), 1);
  results = run("null_threshold = -3.0\n");
  EXPECT_EQ(number(results, "has_answer_f1"), 0);
  const std::string error = text_of<ConfigError>(
      [&] { open_squad(squad("cat", {asked({"cat"}, false)}), "null_threshold = 0.0\n"); });
  EXPECT_THAT(error, HasSubstr("null_threshold = 0, and each question of the file has an answer"));
}

TEST_F(SquadEvaluation, ClsIsNoAnswerInTheFirstVersion) {
  const auto task = open_squad(squad("cat sat on", {asked({"cat"}, false)}));
  EXPECT_EQ(number(task->evaluate_samples({window({{-1, 9}, {0, 0}}, {{-1, 9}, {0, 0}})}), "f1"),
            1);
  EXPECT_THAT(names(task->evaluate_samples({window({}, {})})),
              ElementsAre("windows", "questions", "exact_match", "f1"));
}

TEST_F(SquadEvaluation, AnAnswerEndsAfterItBeginsAndIsNotTooLong) {
  const std::string file = squad("cat sat on mat in", {asked({"sat on"}, false)});
  const auto f1 = [&](const std::string& keys, const Logits& begins, const Logits& ends) {
    return number(open_squad(file, keys)->evaluate_samples({window(begins, ends)}), "exact_match");
  };
  // The likeliest end is before the likeliest begin.
  EXPECT_EQ(f1("", {{1, 5}}, {{0, 5}, {2, 1}}), 1);
  // The likeliest answer has three tokens.
  EXPECT_EQ(f1("answer = 2\n", {{1, 5}}, {{3, 5}, {2, 1}}), 1);
  EXPECT_EQ(f1("answer = 3\n", {{1, 5}}, {{3, 5}, {2, 1}}), 0);
  // Begins and ends that are not among the likeliest are not looked at: with one of each there is
  // no answer, as its end is before its begin.
  EXPECT_EQ(f1("best = 1\n", {{1, 5}}, {{0, 5}, {2, 1}}), 0);
  EXPECT_EQ(f1("best = 2\n", {{1, 5}}, {{0, 5}, {2, 1}}), 1);
}

// Of questions, [SEP] and padding no answer is made, however likely they are.
TEST_F(SquadEvaluation, AnAnswerIsOfTheContext) {
  const auto task = open_squad(squad("cat sat on", {asked({"sat"}, false)}), "best = 1\n");
  std::vector<float> scores = window({{1, 0}}, {{1, 0}});
  for (const std::size_t place : {0, 1, 2, 6, 7, 23}) {
    scores[place] = scores[static_cast<std::size_t>(kLength) + place] = 9;
  }
  EXPECT_EQ(number(task->evaluate_samples({scores}), "exact_match"), 1);
}

TEST_F(SquadEvaluation, TheBestOfAllWindowsIsTheAnswer) {
  // 6 tokens, windows of 4: [0, 4) and [2, 6).
  const std::string file = squad("cat sat on mat in the", {asked({"mat"}, false)});
  const auto exact = [&](const SampleScores& scores) {
    const auto task = open_squad(file, "stride = 2\n", 8);
    EXPECT_EQ(task->samples()->size(SampleSet::test), 2);
    const EvaluationResults results = task->evaluate_samples(scores);
    EXPECT_EQ(number(results, "windows"), 2);
    EXPECT_EQ(number(results, "questions"), 1);
    return number(results, "exact_match");
  };
  const auto at = [](i64 place, float logit) {
    return window({{place, logit}}, {{place, logit}}, 8);
  };
  // "mat" is token 3: the last of the first window, the second of the second one.
  EXPECT_EQ(exact({at(0, 1), at(1, 2)}), 1);
  EXPECT_EQ(exact({at(0, 2), at(1, 1)}), 0);
  // The first window has nothing after it, so that is not where it is looked for.
  EXPECT_EQ(exact({at(3, 5), at(2, 1)}), 0);
}

// A hundredth of a window's tokens counts, too: of 310 tokens, token 295 has 4 after it in the
// first 300, which are worth 3, and 5 before it in the last 20, which are worth 0.2.
TEST_F(SquadEvaluation, ALongWindowIsWorthMore) {
  std::string context;
  for (int i = 0; i < 310; ++i) context += i == 295 ? "mat " : "cat ";
  constexpr i64 kLong = 300 + 4;
  const auto task = open_squad(squad(context, {asked({"mat"}, false)}), "stride = 290\n", kLong);
  const auto exact = [&](i64 place) {
    return number(task->evaluate_samples({window({{0, 2}}, {{0, 2}}, kLong),
                                          window({{place, 5}}, {{place, 5}}, kLong)}),
                  "exact_match");
  };
  EXPECT_EQ(exact(295 - 290), 0);  // that is "cat", of the first window
  EXPECT_EQ(number(task->evaluate_samples(
                       {window({{295, 5}}, {{295, 5}}, kLong), window({{9, 2}}, {{9, 2}}, kLong)}),
                   "exact_match"),
            1);
}

TEST_F(SquadEvaluation, TheLeastNoAnswerOfAllWindowsCounts) {
  const std::string file = squad("cat sat on mat in the", {asked({"cat"}, true)});
  const auto exact = [&](float first, float second) {
    return number(open_squad(file, "stride = 2\n", 8)
                      ->evaluate_samples({window({{-1, first}, {0, 1}}, {{-1, 0}, {0, 1}}, 8),
                                          window({{-1, second}}, {{-1, 0}}, 8)}),
                  "exact_match");
  };
  EXPECT_EQ(exact(3, 3), 0);
  EXPECT_EQ(exact(3, 1), 1);  // one window is sure enough that there is an answer
  EXPECT_EQ(exact(1, 3), 1);
}

TEST_F(SquadEvaluation, AnEnsembleAveragesLogits) {
  const auto task = open_squad(squad("cat sat on", {asked({"sat"}, false)}));
  SampleScores scores = {window({{1, 7}}, {{1, 3}})};
  const SampleScores before = scores;
  task->to_average(scores);
  EXPECT_EQ(scores, before);
  EXPECT_THAT(
      text_of<ConfigError>([&] {
        task->evaluate_samples({{1, 2}});
      }),
      HasSubstr("gives 2 scores a sample, and the task needs 48 (a begin and an end of each "
                "place)"));
}

// All questions are measured, also one whose answer is not where the file says.
TEST_F(SquadEvaluation, NoQuestionIsLeftOut) {
  const auto task = open_squad(squad("cat sat", {asked({"mat"}, false), asked({"sat"}, false)}));
  EXPECT_EQ(number(task->evaluate_samples({window({{1, 1}}, {{1, 1}}), window({{1, 1}}, {{1, 1}})}),
                   "exact_match"),
            0.5);
}

}  // namespace sentence_pair_evaluations_test
}  // namespace tessera
