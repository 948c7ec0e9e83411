// Datasets of the tasks that BERT is fine-tuned for: which tokens and labels a sample has, and what
// is said of files that are wrong.
#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "tests/unit/plugins/sentence_pairs.hpp"

namespace tessera {
namespace sentence_pairs_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr auto kTrain = SampleSet::train;
constexpr auto kValidation = SampleSet::validation;

class SentencePairs : public TaskDatasets {
 protected:
  // un 5, ##aff 6, ##able 7, is 8, it 9, not 10, . 11, é 12, - 13, ( 14, ) 15, e 16, ab 17, ##c 18,
  // ᄒ 19, ##ᅡ 20, ##ᆫ 21
  SentencePairs()
      : TaskDatasets{"un ##aff ##able is it not . é - ( ) e ab ##c \u1112 ##\u1161 ##\u11AB"} {}
};

// --- mnli and qqp ---

std::string mnli_line(const std::string& a, const std::string& b, const std::string& label) {
  return "7\tp\tq\tgenre\tx\tx\tx\tx\t" + a + "\t" + b + "\tneutral\t" + label + "\n";
}
const std::string kMnliNames =
    "index\tpromptID\tpairID\tgenre\tb1\tb2\tp1\tp2\tsentence1\tsentence2\tlabel1\tgold_label\n";

TEST_F(SentencePairs, MnliHasColumns8And9AndTheLast) {
  const auto data = open("mnli",
                         both("m.tsv",
                              kMnliNames + mnli_line("unaffable", "is it", "entailment") +
                                  mnli_line("it", "not", "contradiction") +
                                  mnli_line(" not ", "it is not it", "neutral")));
  ASSERT_EQ(data->size(kValidation), 3);
  EXPECT_EQ(data->size(SampleSet::test), 0);
  auto sample = read_fields_of(*data, kValidation, 0, 8);
  EXPECT_THAT(sample["tokens"], ElementsAre(2, 5, 6, 7, 3, 8, 9, 3));
  EXPECT_THAT(sample["segments"], ElementsAre(0, 0, 0, 0, 0, 1, 1, 1));
  EXPECT_THAT(sample["last"], ElementsAre(7, 7, 7, 7, 7, 7, 7, 7));
  EXPECT_THAT(sample["label"], ElementsAre(1));
  EXPECT_THAT(sample["label_mask"], ElementsAre(1));
  sample = read_fields_of(*data, kValidation, 1, 8);
  EXPECT_THAT(sample["tokens"], ElementsAre(2, 9, 3, 10, 3, 0, 0, 0));
  EXPECT_THAT(sample["segments"], ElementsAre(0, 0, 0, 1, 1, 0, 0, 0));
  EXPECT_THAT(sample["last"], ElementsAre(4, 4, 4, 4, 4, -1, -1, -1));
  EXPECT_THAT(sample["label"], ElementsAre(0));
  EXPECT_THAT(read_fields_of(*data, kValidation, 2, 8)["label"], ElementsAre(2));
  EXPECT_EQ(data->fields()[4].loss, "label");
  EXPECT_EQ(data->fields()[3].length, 1);
  EXPECT_EQ(data->content(kValidation).documents, 3);
  EXPECT_EQ(data->content(kValidation).tokens, 8 + 5 + 8);
  EXPECT_EQ(files_.plain(data->origin(kValidation, 1)), "m.tsv:3");
}

TEST_F(SentencePairs, WhatIsTooLongIsCutAtTheEndBeforeALastSep) {
  const auto data = open("mnli",
                         both("m.tsv",
                              kMnliNames + mnli_line("unaffable", "is it not", "neutral") +
                                  mnli_line("is it not it is it", "not", "neutral")),
                         6);
  auto sample = read_fields_of(*data, kValidation, 0, 6);
  EXPECT_THAT(sample["tokens"], ElementsAre(2, 5, 6, 7, 3, 3));  // nothing of B has room
  EXPECT_THAT(sample["segments"], ElementsAre(0, 0, 0, 0, 0, 1));
  sample = read_fields_of(*data, kValidation, 1, 6);  // nor the first [SEP]
  EXPECT_THAT(sample["tokens"], ElementsAre(2, 8, 9, 10, 9, 3));
  EXPECT_THAT(sample["segments"], ElementsAre(0, 0, 0, 0, 0, 1));
  EXPECT_THAT(sample["last"], ElementsAre(5, 5, 5, 5, 5, 5));
}

const std::string kQqpNames = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n";

TEST_F(SentencePairs, QqpHasColumns3To5) {
  const std::string lines = kQqpNames + "1\t3\t4\tis it\tnot\t1\r\n2\t5\t6\tit\tis\t0";
  const auto data = open("qqp", both("q.tsv", lines));
  ASSERT_EQ(data->size(kValidation), 2);
  auto sample = read_fields_of(*data, kValidation, 0, 8);
  EXPECT_THAT(sample["tokens"], ElementsAre(2, 8, 9, 3, 10, 3, 0, 0));
  EXPECT_THAT(sample["label"], ElementsAre(1));
  EXPECT_THAT(read_fields_of(*data, kValidation, 1, 8)["label"], ElementsAre(0));
}

TEST_F(SentencePairs, LinesOfQqpThatAreNoPairsMayBeLeftOut) {
  const std::string lines = kQqpNames +
                            "1\t3\t4\tit\tis\t1\n"
                            "2\t5\t6\tit\tis\n"
                            "3\t5\t6\t \tis\t1\n"
                            "4\t5\t6\tnot\tit\t0\n";
  EXPECT_EQ(
      refused("qqp", key("q.tsv", lines)),
      "q.tsv:3: 5 columns, its first line has 6 (bad_lines = \"skip\" leaves such lines out)");
  const auto data = open("qqp", key("q.tsv", lines) + "bad_lines = \"skip\"\n");
  EXPECT_EQ(data->size(kTrain), 2);
  EXPECT_EQ(data->content(kTrain).unit, "pairs (lines left out: 2)");
  EXPECT_EQ(refused("qqp", key("q.tsv", kQqpNames + "3\t5\t6\t \tis\t1\n")),
            "q.tsv:2: \"question1\" is empty (bad_lines = \"skip\" leaves such lines out)");
  EXPECT_THAT(refused("qqp", key("q.tsv", kQqpNames + "3\t5\n") + "bad_lines = \"skip\"\n"),
              HasSubstr("q.tsv has no example"));
}

TEST_F(SentencePairs, TabFilesThatAreWrong) {
  const auto mnli = [&](const std::string& text) {
    return refused("mnli", key("train.tsv", text));
  };
  std::string lines = kMnliNames;
  for (int i = 0; i < 15; ++i) lines += mnli_line("it", "is", "neutral");
  EXPECT_EQ(mnli(lines + "0\tp\tq\tgenre\tx\tx\tx\tx\tit\tis\tneutral\n"),
            "train.tsv:17: 11 columns, its first line has 12");
  EXPECT_EQ(mnli(kMnliNames + mnli_line("it", "is", "-")),
            "train.tsv:2: \"gold_label\" is \"-\", which is none of contradiction, entailment, "
            "neutral");
  EXPECT_EQ(mnli(kMnliNames + mnli_line("it", "", "neutral")),
            "train.tsv:2: \"sentence2\" is empty");
  EXPECT_EQ(mnli(mnli_line("it", "is", "neutral") + mnli_line("it", "is", "neutral")),
            "train.tsv:1: the first line names the columns, and this one is an example");
  EXPECT_EQ(mnli("a\tb\tc\td\te\tf\tg\th\ti\tj\n"),
            "train.tsv:1: 10 columns, as a test file has them: it has no labels");
  EXPECT_EQ(mnli("a\tb\n"), "train.tsv:1: 2 columns, and 11 or more are wanted");
  EXPECT_EQ(mnli(""), "train.tsv is empty; its first line names columns");
  EXPECT_EQ(mnli(kMnliNames), "data.path: train.tsv has no example");
  EXPECT_EQ(refused("qqp", key("q.tsv", "id\tquestion1\tquestion2\n")),
            "q.tsv:1: 3 columns, as a test file has them: it has no labels");
  EXPECT_EQ(refused("qqp", key("q.tsv", "a\tb\tc\td\te\tf\tg\n")),
            "q.tsv:1: 7 columns, and 6 are wanted");
  EXPECT_THAT(refused("qqp", key("q.tsv", kQqpNames + "1\t3\t4\tit\tis\t2\n")),
              HasSubstr("\"is_duplicate\" is \"2\", which is none of 0, 1"));
  const std::string good = key("q.tsv", kQqpNames + "1\t3\t4\tit\tis\t1\n");
  EXPECT_EQ(refused("qqp", good + "validation_" + good),
            "data.validation_path: q.tsv is named twice");
  EXPECT_EQ(refused("qqp", good, 2), "batch.sequence_length = 2: qqp needs 3 or more");
  EXPECT_EQ(files_.plain(text_of<ConfigError>([&] { open("qqp", good, 8, 1, 9); })),
            "tokenizer: a text has token 9, and the model has a vocabulary of 9");
}

TEST_F(SentencePairs, AnEpochHasEachSampleOnceInAnOrderOfItsOwn) {
  std::string lines = kQqpNames;
  for (int i = 0; i < 50; ++i) lines += fmt::format("{}\t3\t4\tit\tis\t1\n", i);
  const auto order = [&](u64 seed, i64 from) {
    const auto data = open("qqp", key("q.tsv", lines), 8, seed);
    std::vector<std::string> origins;
    for (i64 i = 0; i < 50; ++i) origins.push_back(data->origin(kTrain, from + i));
    return origins;
  };
  const auto first = order(1, 0), second = order(1, 50), other = order(2, 0);
  EXPECT_EQ(first, order(1, 0));
  EXPECT_NE(first, second);
  EXPECT_NE(first, other);
  for (const auto& origins : {first, second, other}) {
    EXPECT_THAT(std::set<std::string>(origins.begin(), origins.end()), SizeIs(50));
  }
  EXPECT_FALSE(std::ranges::is_sorted(first));
}

TEST_F(SentencePairs, FingerprintsHaveFilesKeysAndLength) {
  const std::string text = kQqpNames + "1\t3\t4\tit\tis\t1\n";
  const std::string keys = key("q.tsv", text);
  std::set<std::string> prints;
  prints.insert(open("qqp", keys)->fingerprint());
  EXPECT_TRUE(prints.insert(open("qqp", keys, 9)->fingerprint()).second);
  files_.write("v.tsv", text);
  EXPECT_TRUE(
      prints.insert(open("qqp", keys + "validation_" + key("v.tsv"))->fingerprint()).second);
  files_.write("q.tsv", kQqpNames + "1\t3\t4\tit\tis\t0\n");
  EXPECT_TRUE(prints.insert(open("qqp", keys)->fingerprint()).second);
  EXPECT_THAT(open("qqp", keys)->fingerprint(), HasSubstr(": 1 samples"));
}

// --- race ---

constexpr const char* kRace =
    R"({"article": "it is not", "questions": ["is _ .", "is it"],
        "options": [["it", "not", "e", "ab"], ["e", "not", "it is", "."]],
        "answers": ["B", "D"], "id": "high1.txt"})";

TEST_F(SentencePairs, TheChoicesOfAQuestionShareASample) {
  const std::string middle = files_.write("race/middle/1.txt", kRace);
  files_.write("race/high/2.txt", R"({"article": "e", "questions": ["is"],
      "options": [["it", "not", "e", "ab"]], "answers": ["A"]})");
  files_.write("dev/1.txt", kRace);
  const auto data =
      open("race", key("race") + "validation_" + key("dev") + "question = 3\n", 4 * 9);
  EXPECT_EQ(data->size(kTrain), 3);
  ASSERT_EQ(data->size(kValidation), 2);
  auto sample = read_fields_of(*data, kValidation, 0, 36);
  // "is it ." and the article, for each choice.
  EXPECT_THAT(sample["tokens"],
              ElementsAre(2,
                          8,
                          9,
                          11,
                          3,
                          9,
                          8,
                          10,
                          3,  //
                          2,
                          8,
                          10,
                          11,
                          3,
                          9,
                          8,
                          10,
                          3,  //
                          2,
                          8,
                          16,
                          11,
                          3,
                          9,
                          8,
                          10,
                          3,  //
                          2,
                          8,
                          17,
                          11,
                          3,
                          9,
                          8,
                          10,
                          3));
  EXPECT_THAT(sample["label"], ElementsAre(1));
  sample = read_fields_of(*data, kValidation, 1, 36);
  // No "_": question and choice, of which 3 tokens stay.
  EXPECT_THAT(sample["tokens"],
              ElementsAre(2,
                          8,
                          9,
                          16,
                          3,
                          9,
                          8,
                          10,
                          3,  //
                          2,
                          8,
                          9,
                          10,
                          3,
                          9,
                          8,
                          10,
                          3,  //
                          2,
                          8,
                          9,
                          9,
                          3,
                          9,
                          8,
                          10,
                          3,  //
                          2,
                          8,
                          9,
                          11,
                          3,
                          9,
                          8,
                          10,
                          3));
  EXPECT_THAT(sample["label"], ElementsAre(3));
  EXPECT_THAT(sample["label_mask"], ElementsAre(1));
  EXPECT_EQ(files_.plain(data->origin(kValidation, 1)), "dev/1.txt: questions[1]");
  EXPECT_EQ(data->content(kValidation).unit, "questions");
  EXPECT_EQ(data->content(kValidation).tokens, 72);
}

TEST_F(SentencePairs, PlacesOfAChoiceCountFromItsOwnBegin) {
  files_.write("dev/1.txt", R"({"article": "e", "questions": ["is"],
      "options": [["it", "not e", "e"]], "answers": ["A"]})");
  files_.write("race/1.txt", kRace);
  const auto data = open("race", key("dev") + "choices = 3\n", 3 * 7);
  auto sample = read_fields_of(*data, kTrain, 0, 21);
  EXPECT_THAT(sample["tokens"],
              ElementsAre(2, 8, 9, 3, 16, 3, 0, 2, 8, 10, 16, 3, 16, 3, 2, 8, 16, 3, 16, 3, 0));
  EXPECT_THAT(sample["segments"],
              ElementsAre(0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0));
  EXPECT_THAT(
      sample["last"],
      ElementsAre(5, 5, 5, 5, 5, 5, -1, 13, 13, 13, 13, 13, 13, 13, 19, 19, 19, 19, 19, 19, -1));
  EXPECT_THAT(sample["first"],
              ElementsAre(0, 0, 0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 14, 14, 14, 14, 14, 14, 14));
  EXPECT_THAT(sample["positions"],
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6));
}

TEST_F(SentencePairs, FilesOfRaceThatAreWrong) {
  const auto race = [&](const std::string& text) {
    files_.write("race/1.txt", text);
    return refused("race", key("race"), 36);
  };
  const auto with = [](const std::string& options, const std::string& answers) {
    return R"({"article": "it", "questions": ["is"], "options": )" + options + R"(, "answers": )" +
           answers + "}";
  };
  EXPECT_EQ(race(with(R"([["it", "not", "e"]])", R"(["A"])")),
            "race/1.txt: options[0] has 3 texts, and choices = 4");
  EXPECT_EQ(race(with(R"([["it", "not", "e", "ab"]])", R"(["E"])")),
            "race/1.txt: answers[0] is \"E\", which is no letter from A to D");
  EXPECT_EQ(race(with(R"([["it", "not", "e", "ab"]])", R"([])")),
            "race/1.txt: answers has 0 elements, and there are 1 questions");
  EXPECT_EQ(race(with(R"([["it", "not", "e", 7]])", R"(["A"])")),
            "race/1.txt: options[0][3] is 7, and a text is wanted");
  EXPECT_EQ(race("{\"article\": \"it\"}"), "race/1.txt has no \"questions\"");
  EXPECT_THAT(race("{\"article\": "), HasSubstr("race/1.txt is damaged: "));
  files_.write("race/1.txt", kRace);
  EXPECT_EQ(refused("race", key("race"), 30),
            "batch.sequence_length = 30: a sample has 4 choices of equal length, each of 3 places "
            "or more");
  std::filesystem::create_directory(files_.path("race/high"));
  EXPECT_EQ(refused("race", key("race"), 36),
            "data.path: race has .txt files and a folder high; which are meant?");
  std::filesystem::remove(files_.path("race/1.txt"));
  EXPECT_EQ(refused("race", key("race"), 36), "data.path: race/high has no .txt file");
  std::filesystem::remove(files_.path("race/high"));
  EXPECT_EQ(refused("race", key("race"), 36),
            "data.path: race has no .txt file, and no folder middle or high");
  EXPECT_THAT(refused("race", key("vocab.txt"), 36), HasSubstr("vocab.txt is no folder"));
}

// --- squad ---

std::string squad(const std::string& context, const std::string& questions) {
  return R"({"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": ")" + context +
         R"(", "qas": [)" + questions + "]}]}]}";
}
std::string ask(const std::string& question, const std::string& answer, i64 begin) {
  return fmt::format(
      R"({{"id": "i", "question": "{}", "answers": [{{"text": "{}", "answer_start": {}}}]}})",
      question,
      answer,
      begin);
}

TEST_F(SentencePairs, ContextsOfSquadAreSeenThroughWindows) {
  // 7 tokens: un ##aff ##able is it not .
  const std::string file =
      squad("unaffable is it not.", ask("is it", "it", 13) + "," + ask("e not e", "unaffable", 0));
  const auto data = open("squad", both("s.json", file) + "stride = 2\nquestion = 2\n", 9);
  // Both have 4 places for the context: windows [0, 4), [2, 6), [4, 7).
  ASSERT_EQ(data->size(kValidation), 6);
  const auto at = [&](i64 ordinal) { return read_fields_of(*data, kValidation, ordinal, 9); };
  auto sample = at(0);
  EXPECT_THAT(sample["tokens"], ElementsAre(2, 8, 9, 3, 5, 6, 7, 8, 3));
  EXPECT_THAT(sample["segments"], ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 1));
  EXPECT_THAT(sample["answerable"], ElementsAre(1, 0, 0, 0, 1, 1, 1, 1, 0));
  EXPECT_THAT(sample["answer"], ElementsAre(0, 0));  // "it" is token 4
  EXPECT_THAT(sample["answer_mask"], ElementsAre(1, 1));
  sample = at(1);
  EXPECT_THAT(sample["tokens"], ElementsAre(2, 8, 9, 3, 7, 8, 9, 10, 3));
  EXPECT_THAT(sample["answer"], ElementsAre(6, 6));
  sample = at(2);
  EXPECT_THAT(sample["tokens"], ElementsAre(2, 8, 9, 3, 9, 10, 11, 3, 0));
  EXPECT_THAT(sample["last"], ElementsAre(7, 7, 7, 7, 7, 7, 7, 7, -1));
  EXPECT_THAT(sample["answerable"], ElementsAre(1, 0, 0, 0, 1, 1, 1, 0, 0));
  EXPECT_THAT(sample["answer"], ElementsAre(4, 4));
  sample = at(3);
  EXPECT_THAT(sample["tokens"], ElementsAre(2, 16, 10, 3, 5, 6, 7, 8, 3));  // 2 of the question
  EXPECT_THAT(sample["answer"], ElementsAre(4, 6));
  EXPECT_THAT(at(4)["answer"], ElementsAre(0, 0));  // its begin is cut off
  EXPECT_EQ(data->fields()[5].loss, "span");
  EXPECT_EQ(data->content(kValidation).documents, 2);
  EXPECT_EQ(data->content(kValidation).tokens, 2 * (9 + 9 + 8));
  EXPECT_EQ(files_.plain(data->origin(kValidation, 4)),
            "s.json: data[0].paragraphs[0].qas[1], tokens 2 to 5 of the context");
}

// The tokens that a question's answer has, of a context in one window.
TEST_F(SentencePairs, AnAnswerHasTheTokensOfItsCharacters) {
  const auto tokens = [&](const std::string& context, const std::string& answer, i64 begin) {
    const auto data = open(
        "squad", key("s.json", squad(context, ask("is", answer, begin))) + "question = 1\n", 20);
    auto sample = read_fields_of(*data, kTrain, 0, 20);
    const auto from = static_cast<std::size_t>(sample["answer"][0]);
    const auto to = static_cast<std::size_t>(sample["answer"][1]);
    return std::vector<i64>(sample["tokens"].begin() + static_cast<i64>(from),
                            sample["tokens"].begin() + static_cast<i64>(to) + 1);
  };
  EXPECT_THAT(tokens("(unaffable-it) e", "unaffable", 1), ElementsAre(5, 6, 7));
  EXPECT_THAT(tokens("(unaffable-it) e", "it", 11), ElementsAre(9));
  EXPECT_THAT(tokens("(unaffable-it) e", "-it) e", 10), ElementsAre(13, 9, 15, 16));
  EXPECT_THAT(tokens("is unaffable", "affable", 5), ElementsAre(6, 7));
  EXPECT_THAT(tokens("is unaffable", "aff", 5), ElementsAre(6));
  EXPECT_THAT(tokens("is unaffable", "fab", 6), ElementsAre(6, 7));
  EXPECT_THAT(tokens("is UNAFFABLE", "ABLE", 8), ElementsAre(7));
  // Characters of more bytes than one; \u0301 is an accent of the letter before it.
  EXPECT_THAT(tokens("é-it not", "it", 2), ElementsAre(9));
  EXPECT_THAT(tokens("e\xCC\x81-it not", "it", 3), ElementsAre(9));
  EXPECT_THAT(tokens("e\xCC\x81-it not", "e", 0), ElementsAre(16));
  EXPECT_THAT(tokens("u\xCC\x81naffable it", "affable", 3), ElementsAre(6, 7));
  // Characters that become several have all of their tokens (U+D55C is three letters).
  EXPECT_THAT(tokens("it-\uD55C it", "\uD55C", 3), ElementsAre(19, 20, 21));
  EXPECT_THAT(tokens("ABc it", "c", 2), ElementsAre(18));
  // The text is found in the words that the characters are of.
  EXPECT_THAT(tokens("not (it) is", "it", 4), ElementsAre(9));
}

TEST_F(SentencePairs, QuestionsWithoutAnAnswerAreThoseOfSquad2) {
  const std::string none = R"({"question": "is", "answers": [], "is_impossible": true})";
  std::string some = ask("e", "it", 0);
  some.insert(some.size() - 1, ", \"is_impossible\": false");
  const auto data =
      open("squad", both("s.json", squad("it is", none + "," + some)) + "question = 1\n", 8);
  ASSERT_EQ(data->size(kValidation), 2);
  EXPECT_THAT(read_fields_of(*data, kValidation, 0, 8)["answer"], ElementsAre(0, 0));
  EXPECT_THAT(read_fields_of(*data, kValidation, 1, 8)["answer"], ElementsAre(3, 3));
}

TEST_F(SentencePairs, AnswersThatAreNotInTheirContextAreLeftOut) {
  const auto data =
      open("squad",
           key("s.json", squad("it is", ask("is", "not", 0) + "," + ask("e", "it", 0))) +
               "question = 1\n",
           8);
  EXPECT_EQ(data->size(kTrain), 1);
  EXPECT_EQ(data->content(kTrain).unit,
            "questions (left out, as their answer is not in the context: 1)");
  EXPECT_THAT(refused("squad", key("s.json", squad("it is", ask("is", "not", 0))), 80),
              HasSubstr("data.path: there is no sample of squad in it"));
}

TEST_F(SentencePairs, FilesOfSquadThatAreWrong) {
  const auto squad_of = [&](const std::string& text) {
    return refused("squad", key("dev.json", text) + "question = 1\n", 8);
  };
  std::string context;
  for (int i = 0; i < 166; ++i) context += "it ";
  EXPECT_EQ(
      squad_of(squad(context, ask("is", "it", 0) + "," + ask("is", "it", 512))),
      "dev.json: data[0].paragraphs[0].qas[1].answers[0].answer_start 512 is beyond a context "
      "of 498 characters");
  EXPECT_EQ(squad_of(squad("é", ask("is", "it", 1))),
            "dev.json: data[0].paragraphs[0].qas[0].answers[0].answer_start 1 is beyond a context "
            "of 1 characters");
  EXPECT_EQ(squad_of(squad("it", ask("is", "", 0))),
            "dev.json: data[0].paragraphs[0].qas[0].answers[0].text is empty");
  EXPECT_EQ(
      squad_of(squad("it", ask("is", "it", -1))),
      "dev.json: data[0].paragraphs[0].qas[0].answers[0].answer_start is -1, and a number from "
      "0 on is wanted");
  EXPECT_EQ(squad_of(squad("it", R"({"question": "is", "answers": []})")),
            "dev.json: data[0].paragraphs[0].qas[0] has 0 answers");
  EXPECT_EQ(squad_of(squad("it", R"({"question": "is", "answers": [], "is_impossible": false})")),
            "dev.json: data[0].paragraphs[0].qas[0] has 0 answers, and is_impossible = false");
  EXPECT_EQ(squad_of(squad("it",
                           R"({"question": "is", "answers": [], "is_impossible": true},)" +
                               ask("is", "it", 0))),
            "dev.json: data[0].paragraphs[0].qas[1] has no \"is_impossible\", unlike questions "
            "before it");
  EXPECT_EQ(squad_of(squad(" ", ask("is", " ", 0))),
            "dev.json: data[0].paragraphs[0].context has no token");
  EXPECT_EQ(squad_of(squad("it", "7")),
            "dev.json: data[0].paragraphs[0].qas[0] is 7, and an object is wanted");
  EXPECT_EQ(squad_of(R"({"data": {}})"), "dev.json: data is an object, and an array is wanted");
  EXPECT_EQ(squad_of(R"({"data": []})"), "dev.json has no question");
  EXPECT_THAT(squad_of("[]"), HasSubstr("dev.json is damaged"));
  EXPECT_EQ(
      refused("squad", key("dev.json", squad("it", ask("is", "it", 0))), 67),
      "batch.sequence_length = 67: a question of 64 tokens (question = 64) leaves no room for "
      "its context");
}

// --- tokenizers ---

// A byte is a token, and there is none for texts to be joined with.
TEST(SentencePairsTokenizer, WithoutClsItIsRefused) {
  TokenizerArguments none;
  const TestFolder folder;
  DatasetArguments arguments{.sequence_length = 8,
                             .tokenizer = make_plugin<Tokenizer>("byte", "", none)};
  const std::string keys =
      "path = [\"" + folder.write("q.tsv", kQqpNames + "1\t3\t4\tit\tis\t1\n") + "\"]\n";
  EXPECT_THAT(text_of<ConfigError>([&] { make_plugin<Dataset>("qqp", keys, arguments); }),
              HasSubstr("pairs of texts are joined by [CLS] and [SEP], and it has no [CLS]"));
}

// Spaces belong to tokens, as with byte-level BPE.
class Spaced final : public Tokenizer {
  i64 do_vocabulary() const override { return 300; }
  std::string do_fingerprint() const override { return "spaced"; }
  std::vector<i32> do_encode(std::string_view text) const override {
    return {text.begin(), text.end()};
  }
  std::string do_decode(const std::vector<i32>& ids) const override {
    return {ids.begin(), ids.end()};
  }
  SpecialIds do_special_ids() const override { return {.cls = 256, .sep = 257}; }
};

TEST(SentencePairsTokenizer, SquadRefusesOneWithoutWords) {
  const TestFolder folder;
  DatasetArguments arguments{.sequence_length = 80, .tokenizer = std::make_shared<Spaced>()};
  const auto open = [&](const std::string& context) {
    const std::string file = folder.write("s.json", squad(context, ask("is", "it", 0)));
    return make_plugin<Dataset>("squad", "path = [\"" + file + "\"]\n", arguments);
  };
  EXPECT_EQ(open("it")->size(kTrain), 1);
  EXPECT_THAT(
      text_of<ConfigError>([&] { open("it is"); }),
      HasSubstr("data[0].paragraphs[0].context: the tokens of the text are not those of its "
                "words"));
}

}  // namespace sentence_pairs_test
}  // namespace tessera
