// The stage `sentences`: cases worked by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/document_stage.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace sentences_stage_test {

using ::testing::ElementsAre;

std::vector<std::string> cut(const std::string& text, const std::string& keys = "") {
  DocumentStageArguments arguments{[](const auto&, const auto&) {}};
  const auto stage = make_plugin<DocumentStage>("sentences", keys, arguments);
  const StageResult result = stage->apply({"id", text, 1});
  EXPECT_EQ(result.removed, "");
  EXPECT_TRUE(result.texts.empty());
  return result.sequences.empty() ? std::vector<std::string>{"as it was"} : result.sequences;
}

TEST(SentencesStage, MarksAndWhatClosesAfterThem) {
  EXPECT_THAT(cut("One. Two!  Three?\nFour"), ElementsAre("One.", "Two!", "Three?", "Four"));
  EXPECT_THAT(cut("Really?! Yes... No."), ElementsAre("Really?!", "Yes...", "No."));
  EXPECT_THAT(cut("\"Go!\" She went (at last.) «Fin.» 'Then?' So"),
              ElementsAre("\"Go!\"", "She went (at last.)", "«Fin.»", "'Then?'", "So"));
  EXPECT_THAT(cut("A “word.” “Another”"), ElementsAre("A “word.”", "“Another”"));
  EXPECT_THAT(cut("It ends… Über alles. Élan. ¿Qué?"),
              ElementsAre("It ends…", "Über alles.", "Élan.", "¿Qué?"));
  EXPECT_THAT(cut("In 1999. 5 left."), ElementsAre("In 1999.", "5 left."));
  EXPECT_THAT(cut("One."), ElementsAre("as it was"));
  EXPECT_THAT(cut("\n One. \n"), ElementsAre("One."));
  EXPECT_THAT(cut(" \n\n "), ElementsAre("as it was"));
  EXPECT_THAT(cut(""), ElementsAre("as it was"));
}

TEST(SentencesStage, WhatGoesOnIsNoBegin) {
  for (const char* whole : {"\"Go!\" he said",
                            "wait... what",
                            "Yahoo! & others",
                            "Wow! été",
                            "Hm?! привет",
                            "3.14 and 1.Two",
                            "see tessera.org.The next",
                            "(Is it?), yes"}) {
    EXPECT_THAT(cut(whole), ElementsAre("as it was")) << whole;
  }
}

TEST(SentencesStage, EastAsianMarksNeedNoSpace) {
  EXPECT_THAT(cut("今天天气好。你好！「走吧？」然后。"),
              ElementsAre("今天天气好。", "你好！", "「走吧？」", "然后。"));
  EXPECT_THAT(cut("一。　二"), ElementsAre("一。", "二"));  // an ideographic space
}

TEST(SentencesStage, EmptyLinesEndSentences) {
  EXPECT_THAT(cut("A title\n\nText that\ngoes on\n \t\nEnd"),
              ElementsAre("A title", "Text that\ngoes on", "End"));
  EXPECT_THAT(cut("A title\r\n\r\nText"), ElementsAre("A title", "Text"));
  EXPECT_THAT(cut("a title\ntext", "lines = true"), ElementsAre("a title", "text"));
}

TEST(SentencesStage, AbbreviationsEndNone) {
  for (const char* whole : {"Dr. Smith and Mr. X",
                            "fruit, e.g. Apples",
                            "i.e. The same",
                            "J. R. R. Tolkien",
                            "(J. Smith)",
                            "the U.S. army",
                            "the U.S. Army",
                            "Fig. 3 and No. 5, p. 12",
                            "on Jan. 5",
                            "Apple Inc. Chicago",
                            "at 5 p.m. Eastern"}) {
    EXPECT_THAT(cut(whole), ElementsAre("as it was")) << whole;
  }
  EXPECT_THAT(cut("in the U.S. The army"), ElementsAre("in the U.S.", "The army"));
  EXPECT_THAT(cut("apples, etc. They are"), ElementsAre("apples, etc.", "They are"));
  EXPECT_THAT(cut("He said no. Maria left."), ElementsAre("He said no.", "Maria left."));
  EXPECT_THAT(cut("by A. I. Smith"), ElementsAre("as it was"));  // "I" begins none here
  EXPECT_THAT(cut("a (etc.) Then"), ElementsAre("a (etc.)", "Then"));
  EXPECT_THAT(cut("about Abk. Zwei"), ElementsAre("about Abk.", "Zwei"));
  EXPECT_THAT(cut("about Abk. Zwei", "abbreviations = [\"abk.\"]"), ElementsAre("as it was"));
  EXPECT_THAT(cut("ABK. The", "abbreviations = [\"Abk\"]"), ElementsAre("as it was"));
}

TEST(SentencesStage, NumbersOfListsEndNone) {
  EXPECT_THAT(cut("1. First point. More\n2. Second\n\n12. Last"),
              ElementsAre("1. First point.", "More\n2. Second", "12. Last"));
  EXPECT_THAT(cut("in\n1999. Then"), ElementsAre("in\n1999.", "Then"));
  EXPECT_THAT(cut("it was 7. Then"), ElementsAre("it was 7.", "Then"));
}

// No character is lost but white space, whatever the text.
TEST(SentencesStage, KeepsAllButWhiteSpace) {
  const std::string kPieces[] = {".", "!", "。", " ", "\n", "A", "b", "1", "\"", "(", "é", "…"};
  u64 random = 1;
  for (int round = 0; round < 2000; ++round) {
    std::string text, there, here;
    for (int i = 0; i < 12; ++i) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      text += kPieces[(random >> 33) % std::size(kPieces)];
    }
    const std::vector<std::string> sentences = cut(text);
    if (sentences == std::vector<std::string>{"as it was"}) continue;
    const auto add = [](const std::string& from, std::string& to) {
      for (const char c : from) {
        if (c != ' ' && c != '\n') to += c;
      }
    };
    add(text, there);
    for (const std::string& sentence : sentences) {
      add(sentence, here);
      ASSERT_NE(sentence, "") << text;
      ASSERT_EQ(sentence.find_first_not_of(" \n"), 0U) << text;
      ASSERT_EQ(sentence.find_last_not_of(" \n"), sentence.size() - 1) << text;
    }
    ASSERT_EQ(here, there) << text;
  }
}

TEST(SentencesStage, RefusesWhatIsNoWord) {
  EXPECT_THAT(text_of<ConfigError>([] { cut("a", "abbreviations = [\"et al\"]"); }),
              ::testing::HasSubstr("abbreviations: \"et al\" is no word: one without spaces was "
                                   "expected, as \"approx.\""));
}

}  // namespace sentences_stage_test
}  // namespace tessera
