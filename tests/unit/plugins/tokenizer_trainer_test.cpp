// The trainers of SentencePiece vocabularies. tests/oracle compares with what the package trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tessera/data.hpp"
#include "tessera/tokenizer_trainer.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace tokenizer_trainer_test {

using ::testing::HasSubstr;
using Ids = std::vector<i32>;
using Texts = std::vector<std::string>;

Texts words() {
  const Texts parts = {"ta", "re", "mo", "sil", "kan", "du", "ve", "pho", "ly", "gra"};
  Texts all = {"the", "return", "function", "café", "naïve", "漢字", "(x)"};
  for (std::size_t i = 0; i < 120; ++i) {
    all.push_back(parts[i % 10] + parts[i / 10 % 10] + parts[(i * 7 + i / 3) % 10]);
  }
  return all;
}

// Lines of words that come again, indented as code is.
Texts corpus(u64 seed) {
  std::mt19937_64 random(seed);
  const Texts all = words();
  Texts texts;
  for (int i = 0; i < 40; ++i) {
    std::string text;
    for (int line = 0; line < 20; ++line) {
      text += std::string(4 * (random() % 3), ' ');
      for (int k = 0; k < 6; ++k) text += all[random() % all.size()] + " ";
      text += std::to_string(random() % 10'000) + "\n";
    }
    texts.push_back(text);
  }
  return texts;
}

// A word after others, and before others or at the end: `unigram` takes no pieces but those that
// different characters follow.
std::string among(const std::string& word, std::size_t number) {
  const Texts all = words();
  const std::string text = all[number % all.size()] + " " + word;
  return number % 2 == 0 ? text : text + " " + all[(number * 31 + 5) % all.size()];
}

class TokenizerTrainers : public ::testing::TestWithParam<const char*> {
 protected:
  static std::string bytes(const std::string& keys, const Texts& texts) {
    TokenizerTrainerArguments none;
    const auto trainer = make_plugin<TokenizerTrainer>(GetParam(), keys, none);
    EXPECT_EQ(trainer->tokenizer(), "sentencepiece");
    ::testing::internal::CaptureStderr();
    ::testing::internal::CaptureStdout();
    std::string made, error;
    try {
      made = trainer->train(texts);
    } catch (const ConfigError& failure) {
      error = failure.what();
    }
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "the library prints";
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), "") << "the library prints";
    if (!error.empty()) throw ConfigError(error);
    return made;
  }
  std::shared_ptr<Tokenizer> trained(const std::string& keys, const Texts& texts) const {
    const std::string file = folder_.write("m.model", bytes(keys, texts));
    TokenizerArguments none;
    return make_plugin<Tokenizer>("sentencepiece", "path = \"" + file + "\"", none);
  }
  static std::string refused(const std::string& keys, const Texts& texts) {
    return text_of<ConfigError>([&] { bytes(keys, texts); });
  }
  TestFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(, TokenizerTrainers, ::testing::Values("bpe", "unigram"));

TEST_P(TokenizerTrainers, TextsComeBackAsTheyWere) {
  const auto tokenizer = trained("vocabulary = 400", corpus(1));
  EXPECT_EQ(tokenizer->vocabulary(), 400);
  std::size_t tokens = 0, size = 0;
  for (const std::string& text : corpus(2)) {
    const Ids ids = tokenizer->encode(text);
    ASSERT_EQ(tokenizer->decode(ids), text);
    tokens += ids.size();
    size += text.size();
  }
  EXPECT_LT(tokens * 2, size) << "they are words, not bytes";
  const Texts others = {"",
                        " ",
                        "  two  ",
                        "\n\n\t\r\n x",
                        "Ünknown Ωord ﬁ Ⅳ",
                        "\U0001f600 </s><s><unk>",
                        "\u2585",
                        "\u3000a\u00a0"};
  for (const std::string& text : others)
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  // Of all characters, the mark of a space comes back as another.
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a\u2581b")), "a b");
  // What stands within a text has the tokens that it has at its begin.
  const auto joined = [&](const std::string& a, const std::string& b) {
    Ids ids = tokenizer->encode(a);
    const Ids more = tokenizer->encode(b);
    ids.insert(ids.end(), more.begin(), more.end());
    return ids;
  };
  EXPECT_EQ(joined("the value\n", "return value"), tokenizer->encode("the value\nreturn value"));
}

TEST_P(TokenizerTrainers, TokensByRole) {
  const auto tokenizer = trained("vocabulary = 400", corpus(1));
  const SpecialIds ids = tokenizer->special_ids();
  EXPECT_EQ(ids.unk, 0);
  EXPECT_EQ(ids.bos, 1);
  EXPECT_EQ(ids.eos, Ids{2});
  EXPECT_EQ(ids.eod, 2);
  EXPECT_FALSE(ids.pad);
  EXPECT_EQ(tokenizer->encode("</s>", SpecialTexts::parsed), Ids{2});
  EXPECT_GT(tokenizer->encode("</s>").size(), 1U);
}

TEST_P(TokenizerTrainers, SameTextsSameBytes) {
  const std::string once = bytes("vocabulary = 400", corpus(1));
  EXPECT_EQ(bytes("vocabulary = 400", corpus(1)), once);
  EXPECT_NE(bytes("vocabulary = 400", corpus(3)), once);
}

TEST_P(TokenizerTrainers, KeysHaveAnEffect) {
  Texts years = corpus(1);
  for (std::size_t i = 0; i < 600; ++i) {
    years.push_back(among("function", i) + " " + among("1984", i + 7) + "\n");
  }
  const std::string many = "vocabulary = 400\n";
  EXPECT_EQ(trained(many, years)->encode("1984").size(), 4U);
  EXPECT_LT(trained(many + "split_digits = false", years)->encode(" 1984").size(), 4U);
  EXPECT_LT(trained(many, years)->encode(" function").size(), 4U);
  EXPECT_GE(trained("vocabulary = 308\nlongest_token = 2", years)->encode(" function").size(), 4U);

  // One "x" in 1,200 characters goes without a token of its own.
  Texts rare(20, std::string(60, 'a') + " b\n");
  rare.emplace_back("x\n");
  const std::string few = "vocabulary = 264\ncharacter_coverage = ";
  EXPECT_EQ(trained(few + "1.0", rare)->encode("x").at(0) >= 259, true);
  EXPECT_EQ(trained(few + "0.999", rare)->encode("x").at(0), 3 + 'x');

  const auto changed = trained(many + "normalization = \"nfkc\"", years);
  EXPECT_EQ(changed->decode(changed->encode("ﬁ Ⅳ")), "fi IV");
  const auto small = trained(many + "normalization = \"nfkc_cf\"", years);
  EXPECT_EQ(small->decode(small->encode("IN")), "in");
}

// The library passes over lines of more than 4,192 bytes, and those with certain characters.
TEST_P(TokenizerTrainers, NoLineIsLeftOut) {
  std::string line, dense, zeros, marks;
  for (int i = 0; i < 2000; ++i) line += "longline ";
  for (int i = 0; i < 3000; ++i) dense += "ü木";
  for (std::size_t i = 0; i < 600; ++i) {
    zeros += among("zero", i) + '\0';
    marks += among("marked", i) + "\u2585";
  }
  Texts texts = corpus(1);
  texts.insert(texts.end(), {line + "\n", dense, zeros + "\n", marks});
  const auto tokenizer = trained("vocabulary = 400\ncharacter_coverage = 1.0", texts);
  EXPECT_EQ(tokenizer->encode(" longline").size(), 1U);
  EXPECT_EQ(tokenizer->encode(" zero").size(), 1U);
  EXPECT_EQ(tokenizer->encode(" marked").size(), 1U);
  EXPECT_LE(tokenizer->encode("ü木").size(), 2U);
}

TEST_P(TokenizerTrainers, WhatTheTextsDoNotGive) {
  EXPECT_THAT(refused("vocabulary = 30000", corpus(1)),
              HasSubstr("trainer.vocabulary = 30000: these texts give at most "));
  EXPECT_THAT(refused("vocabulary = 262", corpus(1)),
              HasSubstr("trainer.vocabulary = 262: special tokens, bytes and the characters that "
                        "these texts need are "));
  EXPECT_THAT(refused("vocabulary = 259", corpus(1)), HasSubstr("expected integer in [260, "));
  // The smallest is of use.
  EXPECT_EQ(trained("vocabulary = 260", {"aaaa\naaa\naa\n"})->encode("a").size(), 1U);
  // Without a sentence the library fails, and does not say why.
  const Texts nothing[] = {{"\n\n", "\u2585\n"}, {"\n"}, {std::string(3, '\0')}};
  for (const Texts& texts : nothing) {
    EXPECT_THAT(refused("vocabulary = 300", texts),
                HasSubstr("input: there is no text in it but line feeds, zero bytes and U+2585"));
  }
  // The numbers that it names are right.
  const std::string most = refused("vocabulary = 30000", corpus(1));
  const std::size_t at = most.find("at most ") + 8;
  const int number = std::stoi(most.substr(at));
  EXPECT_NO_THROW(bytes("vocabulary = " + std::to_string(number), corpus(1)));
  EXPECT_THAT(refused("vocabulary = " + std::to_string(number + 1), corpus(1)),
              HasSubstr("at most " + std::to_string(number)));
}

}  // namespace tokenizer_trainer_test
}  // namespace tessera
