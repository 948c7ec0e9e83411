// Evaluations over a scorer that makes numbers up and keeps what it was asked: which tokens count,
// with what before them, and what becomes of the scores.
#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "tessera/evaluation.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace text_scores_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TestFolder;

// The log probability of a token says which it is and how many are before it; lower-case letters
// are the largest.
class Scorer final : public TextScorer {
 public:
  explicit Scorer(i64 positions) : positions_(positions) {}
  i64 most_tokens() const override { return positions_ + 1; }
  std::vector<std::vector<TokenScore>> score(const std::vector<ScoredText>& texts) override {
    std::vector<std::vector<TokenScore>> scores;
    for (const ScoredText& text : texts) {
      EXPECT_LE(static_cast<i64>(text.tokens.size()), most_tokens());
      asked.push_back(text);
      auto& own = scores.emplace_back();
      for (auto i = static_cast<std::size_t>(text.first); i < text.tokens.size(); ++i) {
        const i32 id = text.tokens[i];
        own.push_back({-(id + 0.001 * static_cast<double>(i)), id >= 'a' && id <= 'z'});
      }
    }
    return scores;
  }
  std::vector<ScoredText> asked;

 private:
  i64 positions_;
};

// Bytes; 256 is before each text, where there is such a token.
class Bytes final : public Tokenizer {
 public:
  explicit Bytes(bool begins) : begins_(begins) {}

 private:
  i64 do_vocabulary() const override { return 257; }
  std::string do_fingerprint() const override { return "bytes"; }
  std::vector<i32> do_encode(std::string_view text) const override {
    std::vector<i32> ids;
    for (const char c : text) ids.push_back(static_cast<u8>(c));
    return ids;
  }
  std::string do_decode(const std::vector<i32>&) const override { return ""; }
  SpecialIds do_special_ids() const override {
    return begins_ ? SpecialIds{.bos = 256} : SpecialIds{};
  }
  bool begins_;
};

class TextScores : public ::testing::Test {
 protected:
  EvaluationResults run(const std::string& type,
                        const std::string& name,
                        const std::string& text,
                        const std::string& keys = "",
                        bool begins = false) {
    const std::string file = folder_.write(name, text);
    EvaluationArguments arguments{std::make_shared<Bytes>(begins), scorer_.most_tokens()};
    const auto task =
        make_plugin<EvaluationTask>(type, "data = \"" + file + "\"\n" + keys, arguments);
    scorer_.asked.clear();
    return task->evaluate(scorer_);
  }
  std::string error(const std::string& type,
                    const std::string& name,
                    const std::string& text,
                    const std::string& keys = "") {
    return text_of<ConfigError>([&] { run(type, name, text, keys); });
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
  std::string asked(std::size_t i) const {
    const ScoredText& text = scorer_.asked.at(i);
    std::string shown;
    for (std::size_t k = 0; k < text.tokens.size(); ++k) {
      if (static_cast<i64>(k) == text.first) shown += '|';
      shown += text.tokens[k] == 256 ? '^' : static_cast<char>(text.tokens[k]);
    }
    return shown;
  }

  TestFolder folder_;
  Scorer scorer_{4};
};

TEST_F(TextScores, WindowsScoreEachTokenOnceWithWhatIsBeforeIt) {
  run("perplexity", "a.txt", "abcdefghij", "stride = 2");
  std::vector<std::string> windows;
  for (std::size_t i = 0; i < scorer_.asked.size(); ++i) windows.push_back(asked(i));
  EXPECT_THAT(windows, ElementsAre("a|bcde", "cde|fg", "efg|hi", "ghi|j"));
  // Without overlap every token but a window's first is given what is before it in the window.
  const EvaluationResults plain = run("perplexity", "a.txt", "abcdefghij");
  windows.clear();
  for (std::size_t i = 0; i < scorer_.asked.size(); ++i) windows.push_back(asked(i));
  EXPECT_THAT(windows, ElementsAre("a|bcde", "e|fghi", "i|j"));
  EXPECT_EQ(number(plain, "tokens"), 9);
  EXPECT_EQ(number(plain, "windows"), 3);
  run("perplexity", "a.txt", "abcdefghij", "window = 3\nstride = 1");
  EXPECT_EQ(asked(0), "a|bcd");
  EXPECT_EQ(asked(1), "bcd|e");
  EXPECT_EQ(scorer_.asked.size(), 7U);
}

TEST_F(TextScores, PerplexityIsByTokensWordsAndBytes) {
  const std::string lines = "{\"text\": \"ab c\"}\n\n{\"id\": 7, \"text\": \"xyz\"}\n";
  const EvaluationResults begun = run("perplexity", "a.jsonl", lines, "", true);
  EXPECT_EQ(asked(0), "^|ab c");
  EXPECT_EQ(asked(1), "^|xyz");
  const double nats = ('a' + .001) + ('b' + .002) + (' ' + .003) + ('c' + .004) + ('x' + .001) +
                      ('y' + .002) + ('z' + .003);
  EXPECT_NEAR(number(begun, "nats"), nats, 1e-9);
  EXPECT_EQ(number(begun, "documents"), 2);
  EXPECT_EQ(number(begun, "tokens"), 7);
  EXPECT_EQ(number(begun, "first_tokens_not_scored"), 0);
  EXPECT_NEAR(number(begun, "nats_per_token"), nats / 7, 1e-12);
  EXPECT_NEAR(std::log(number(begun, "word_perplexity")), nats / 3, 1e-9);
  EXPECT_NEAR(number(begun, "bits_per_byte"), nats / 7 / std::numbers::ln2, 1e-9);
  const EvaluationResults plain = run("perplexity", "a.jsonl", lines);
  EXPECT_EQ(number(plain, "tokens"), 5);
  EXPECT_EQ(number(plain, "first_tokens_not_scored"), 2);
}

// What Megatron-LM v2.6's own function makes of the same texts.
TEST_F(TextScores, WikiTextIsDetokenisedAndCountedBefore) {
  const auto text_of = [&](const std::string& text) {
    scorer_ = Scorer(1000);
    run("wikitext", "wiki.txt", text);
    std::string shown = asked(0);
    return shown.erase(shown.find('|'), 1);
  };
  EXPECT_EQ(text_of(" = Robert <unk> = \n \n Robert 's role , in \" Herons \" ( 2012 ) was 1 @,@ "
                    "000 @-@ 5 @.@ 2 .\n"),
            " = Robert <unk> =\n\nRobert's role, in \"Herons\" (2012) was 1,000-5.2 .\n");
  EXPECT_EQ(text_of(" = = Early life = = \n = = = A = = = \n = = = = B = = = = \n"),
            " == Early life ==\n=== A ===\n==== B ====\n");
  EXPECT_EQ(text_of("the dogs ' and 'em ' x ' y [ a [ b ] c ] { d } ( e ( f ) g )"),
            "the dogs'and'em 'x' y [a [ b] c ] {d} (e ( f) g )");
  EXPECT_EQ(text_of("( open \" one \" two \" three"), "( open \"one\" two \" three");
  EXPECT_EQ(text_of("5 \u00b0 C N people /' 7/ x /' 12/ ; a : b ! c ? d"),
            "5\u00b0C 1 people /'[0-9]/ x /' 12/; a: b! c? d");
  EXPECT_EQ(text_of("(\u00a0nbsp\u2003) ( ) \" \" ''"), "(nbsp) () \"\" ''");
  scorer_ = Scorer(4);
  const std::string spaced = " a  b\n \nc 's @-@ d \n";
  const EvaluationResults results = run("wikitext", "wiki.txt", spaced, "stride = 1");
  EXPECT_EQ(number(results, "original_tokens"), 7);  // a, nothing, "b\n", "\nc", 's, @-@, d
  EXPECT_EQ(number(results, "tokens"), 13);          // " a  b\n\nc's-d\n"
  EXPECT_EQ(number(results, "windows"), 1 + 8);
  const double nats = number(results, "nats");
  EXPECT_NEAR(std::log(number(results, "perplexity")), nats / 7, 1e-9);
  EXPECT_NEAR(std::log(number(results, "token_perplexity")), nats / 12, 1e-9);
  EXPECT_NEAR(number(results, "bits_per_byte"),
              nats / static_cast<double>(spaced.size()) / std::numbers::ln2,
              1e-9);
}

TEST_F(TextScores, LambadaScoresTheLastWordWithTheSpaceBeforeIt) {
  scorer_ = Scorer(20);
  const EvaluationResults results =
      run("lambada", "l.jsonl", "{\"text\": \" the  old  cat \\n\"}\n{\"text\": \"a B\"}\n");
  EXPECT_EQ(asked(0), "the  old| cat");
  EXPECT_EQ(asked(1), "a| B");
  EXPECT_EQ(number(results, "texts"), 2);
  EXPECT_EQ(number(results, "right"), 0) << "a space has not the largest logit";
  EXPECT_NEAR(number(results, "nats"),
              ' ' + .008 + 'c' + .009 + 'a' + .010 + 't' + .011 + ' ' + .001 + 'B' + .002,
              1e-9);
  scorer_ = Scorer(4);  // the context loses its beginning
  run("lambada", "l.jsonl", "{\"text\": \"abcdef xy\"}");
  EXPECT_EQ(asked(0), "ef| xy");
  EXPECT_THAT(error("lambada", "l.jsonl", "{\"text\": \"a bcdef\"}"),
              HasSubstr("l.jsonl:1: 6 tokens are scored, and the model has 4 positions"));
  EXPECT_THAT(error("lambada", "l.jsonl", "\n{\"text\": \"alone \"}"),
              HasSubstr("l.jsonl:2: a context and a last word are wanted"));
}

TEST_F(TextScores, ChoicesAreComparedPlainAndByCharacters) {
  scorer_ = Scorer(20);
  // The made up probabilities make the shorter choice likelier, and by characters the one of
  // earlier letters.
  const std::string lines =
      "{\"context\": \"q \", \"choices\": [\"a\u00e4\", \"b\"], \"answer\": 1}\n"
      "{\"context\": \"q\", \"choices\": [\"AA\", \"z\"], \"answer\": 0}\n";
  const EvaluationResults results = run("choices", "c.jsonl", lines);
  EXPECT_EQ(asked(0), "q|  a\u00e4") << "white space at the end belongs to the choice";
  EXPECT_EQ(asked(3), "q| z");
  EXPECT_EQ(number(results, "questions"), 2);
  EXPECT_EQ(number(results, "accuracy"), 0.5);
  EXPECT_EQ(number(results, "accuracy_by_characters"), 1.0);
  EXPECT_NEAR(number(results, "nats"), 3 * ' ' + 'b' + .006 + 2 * 'A' + .006, 1e-9);
}

TEST_F(TextScores, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_THAT(error("perplexity", "p.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n"),
              HasSubstr("p.jsonl:2: no field \"text\""));
  EXPECT_THAT(error("perplexity", "p.jsonl", "{\"text\": 5}\n"),
              HasSubstr("p.jsonl:1: \"text\" is 5, which is no text"));
  EXPECT_THAT(error("perplexity", "p.jsonl", "{\"text\": \"a\"\n"), HasSubstr("p.jsonl:1"));
  EXPECT_THAT(error("perplexity", "p.jsonl", "\n"), HasSubstr("p.jsonl has no document"));
  EXPECT_THAT(error("perplexity", "p.txt", "abc", "window = 5"),
              HasSubstr("window = 5: the model has 4 positions"));
  EXPECT_THAT(error("perplexity", "p.txt", "abc", "window = 2\nstride = 3"),
              HasSubstr("stride = 3 with window = 2 leaves out tokens"));
  EXPECT_THAT(error("choices", "c.jsonl", "{\"context\": \"a\", \"choices\": [\"b\"]}"),
              HasSubstr("c.jsonl:1: \"choices\" is an array of two texts or more"));
  EXPECT_THAT(
      error(
          "choices", "c.jsonl", "{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 2}"),
      HasSubstr("c.jsonl:1: \"answer\" is a number from 0 to 1"));
  EXPECT_THAT(error("wikitext", "w.txt", ""), HasSubstr("has no text"));
}

}  // namespace text_scores_test
}  // namespace tessera
