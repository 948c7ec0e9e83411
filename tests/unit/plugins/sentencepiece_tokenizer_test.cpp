// Small models that are made here. tests/oracle compares with the package sentencepiece.
#include <gmock/gmock.h>

#include <filesystem>
#include <limits>
#include <random>
#include <thread>

#include "tessera/data.hpp"
#include "tests/common/sentencepiece_files.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace sentencepiece_tokenizer_test {

using ::testing::HasSubstr;
using Ids = std::vector<i32>;
using File = testing::SentencePieceFile;

constexpr const char* kSpace = "\xE2\x96\x81";  // "▁", which stands for a space

class SentencePieceTokenizer : public ::testing::Test {
 protected:
  void SetUp() override {
    space_ = file_.add(kSpace, -3);
    a_ = file_.add("a", -4);
    b_ = file_.add("b", -5);
    ab_ = file_.add("ab", -1);
    space_a_ = file_.add(kSpace + std::string("a"), -2);
    try {
      open(file_);
    } catch (const ConfigError& error) {
      if (std::string_view(error.what()).find("which this build is without") != std::string::npos)
        GTEST_SKIP() << error.what();
      throw;
    }
  }
  std::shared_ptr<Tokenizer> open(const File& file) const { return open(file.text()); }
  std::shared_ptr<Tokenizer> open(const std::string& bytes) const {
    return at(folder_.write("tokenizer.model", bytes));
  }
  static std::shared_ptr<Tokenizer> at(const std::string& path) {
    TokenizerArguments none;
    return make_plugin<Tokenizer>("sentencepiece", "path = \"" + path + "\"", none);
  }
  std::string refused(const std::string& bytes) const {
    ::testing::internal::CaptureStderr();
    const std::string text = text_of<ConfigError>([&] { open(bytes); });
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "the library prints";
    return text;
  }
  std::string refused(const File& file) const { return refused(file.text()); }
  File file_;
  i32 space_ = 0, a_ = 0, b_ = 0, ab_ = 0, space_a_ = 0;
  TestFolder folder_;
};

TEST_F(SentencePieceTokenizer, TokensAndTextsAreTheLibrarys) {
  const auto tokenizer = open(file_);
  EXPECT_EQ(tokenizer->vocabulary(), 8);
  EXPECT_EQ(tokenizer->encode("ab b"), (Ids{space_, ab_, space_, b_}));
  EXPECT_EQ(tokenizer->encode("  a  "), Ids{space_a_});  // spaces are taken off
  EXPECT_EQ(tokenizer->encode(""), Ids{});
  EXPECT_EQ(tokenizer->encode("ac"), (Ids{space_a_, 0}));
  EXPECT_EQ(tokenizer->decode({space_, ab_, space_, b_}), "ab b");
  EXPECT_EQ(tokenizer->decode({a_, 0}), "a \xE2\x81\x87 ");
  EXPECT_EQ(tokenizer->decode({}), "");
  EXPECT_THAT(text_of<Error>([&] { tokenizer->decode({8}); }),
              HasSubstr("tokenizer sentencepiece: the ids are 0 to 7, not 8"));
  EXPECT_THAT(text_of<Error>([&] { tokenizer->decode({-1}); }), HasSubstr("not -1"));
  file_.add_dummy_prefix = file_.remove_extra_whitespaces = false;
  EXPECT_EQ(open(file_)->encode("ab "), (Ids{ab_, space_}));
  file_.char_map = File::small_letters();
  EXPECT_EQ(open(file_)->encode("Ab"), Ids{ab_});
  file_.model_type = 1;
  EXPECT_EQ(open(file_)->encode("Ab"), Ids{ab_});
}

TEST_F(SentencePieceTokenizer, ControlSymbolsAreTextUnlessTheyAreParsed) {
  file_.add_bytes();
  const i32 user = file_.add("<u>", 0, File::user_defined);
  const auto tokenizer = open(file_);
  const auto parsed = [&](const std::string& text) {
    return tokenizer->encode(text, SpecialTexts::parsed);
  };
  EXPECT_TRUE(tokenizer->has_special_texts());
  EXPECT_EQ(tokenizer->encode("<s>").size(), 1U + 3) << "a space, and a byte each";
  EXPECT_EQ(parsed("<s>"), Ids{1});
  EXPECT_EQ(parsed("<s>a</s></s>b"), (Ids{1, space_a_, 2, 2, space_, b_}));
  EXPECT_EQ(tokenizer->encode("a<u>"), (Ids{space_a_, user}));
  EXPECT_EQ(parsed("a<u>"), (Ids{space_a_, user}));
  EXPECT_EQ(tokenizer->decode({1, space_a_, 2}), "a");
  EXPECT_EQ(tokenizer->special_ids().bos, 1);
  EXPECT_EQ(tokenizer->special_ids().eos, Ids{2});
  // Bytes of a character that has no token.
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("\xE2\x82\xAC")), "\xE2\x82\xAC");
  File without = file_;
  without.pieces[1].type = without.pieces[2].type = File::normal;
  EXPECT_FALSE(open(without)->has_special_texts());
  EXPECT_EQ(open(without)->special_ids().eos, Ids{});
  EXPECT_NE(open(without)->fingerprint(), tokenizer->fingerprint());
  EXPECT_THAT(tokenizer->fingerprint(), ::testing::StartsWith("sentencepiece: 265 tokens, "));
}

// The same model with a token that has a space within it is given whole texts.
TEST_F(SentencePieceTokenizer, LongTextsAreCutWhereThatChangesNothing) {
  file_.add_bytes();
  const std::vector<std::string> words = {
      "a", "b", "ab", " ", " ", " ", "  ", kSpace, "\xC3\xA9", "\n", "ba", "\xFF", "\t", "."};
  std::mt19937 random(1);
  for (const bool across : {false, true}) {  // is there a token that goes on after a space?
    if (across) file_.add("b" + std::string(kSpace) + "a", 0);
    for (const bool extra : {false, true}) {
      file_.remove_extra_whitespaces = extra;
      File whole = file_;
      whole.add("\x01 \x01", -9);
      const auto parts = open(file_), one = open(whole);
      for (int round = 0; round < 20; ++round) {
        std::string text;
        while (text.size() < 30'000) text += words[random() % words.size()];
        ASSERT_EQ(parts->encode(text), one->encode(text)) << across << extra;
      }
    }
  }
}

TEST_F(SentencePieceTokenizer, ThreadsShareIt) {
  file_.add_bytes();
  const auto tokenizer = open(file_);
  std::vector<std::string> texts;
  std::vector<Ids> expected;
  for (int i = 0; i < 50; ++i) {
    texts.push_back(std::string(static_cast<std::size_t>(i), 'a') + " b \xC3\xA9");
    expected.push_back(tokenizer->encode(texts.back()));
  }
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int& mine : wrong) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        for (std::size_t i = 0; i < texts.size(); ++i) {
          mine += tokenizer->encode(texts[i]) == expected[i] ? 0 : 1;
          mine += tokenizer->decode(expected[i]) == tokenizer->decode(expected[i]) ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST_F(SentencePieceTokenizer, BrokenModelsAreNamedWithWhatIsWrong) {
  const std::string name = "tokenizer.path: " + folder_.path().string() + "/tokenizer.model ";
  const std::string good = file_.text();
  EXPECT_THAT(refused(std::string()),
              ::testing::StartsWith(name + "has no tokens: it is no model of SentencePiece"));
  EXPECT_THAT(refused(good.substr(0, good.size() / 2)),
              ::testing::StartsWith(name + "is damaged, or is no model of SentencePiece"));
  EXPECT_THAT(refused(std::string("{\"a\": 1}")),
              ::testing::StartsWith(name + "is damaged, or is no model of SentencePiece"));
  const auto with = [&](const std::string& text, float score, u8 type = File::normal) {
    File changed = file_;
    changed.add(text, score, static_cast<File::Type>(type));
    return refused(changed);
  };
  EXPECT_THAT(with("x", std::numeric_limits<float>::quiet_NaN()),
              ::testing::StartsWith(name + "has a token 8 (\"x\") of the score nan"));
  EXPECT_THAT(with("", 0), ::testing::StartsWith(name + "has a token 8 that is \"\""));
  EXPECT_THAT(with("x", 0, 9), ::testing::StartsWith(name + "has a token 8 of the type 9"));
  EXPECT_THAT(with("ab", 0), HasSubstr("is no model that SentencePiece takes: "));
  EXPECT_THAT(with("<unk2>", 0, File::unknown), HasSubstr("that SentencePiece takes: "));
  File deep = file_;
  for (std::size_t size = 1; size <= 70; ++size) {
    deep.add(std::string(size, 'z'), 0, File::user_defined);
  }
  EXPECT_THAT(refused(deep), HasSubstr("has 64 user-defined tokens that begin each other, up to"));
  File no_unknown = file_;
  no_unknown.pieces[0].type = File::normal;
  EXPECT_THAT(refused(no_unknown), HasSubstr("that SentencePiece takes: "));
  const std::string huge = folder_.write("huge.model", good);
  std::filesystem::resize_file(huge, 300'000'000);
  EXPECT_THAT(text_of<ConfigError>([&] { at(huge); }),
              HasSubstr("huge.model has 300000000 bytes, more than 268435456"));
  EXPECT_THAT(
      text_of<ConfigError>([&] { at("/nowhere"); }),
      HasSubstr("/nowhere does not exist; give a .model file, or a folder with tokenizer."));
  EXPECT_THAT(text_of<ConfigError>([&] { at(folder_.path().parent_path().string()); }),
              HasSubstr("has no tokenizer.model; give a .model file, or its folder"));
}

TEST_F(SentencePieceTokenizer, ATableOfCharactersStaysInItsBounds) {
  const std::string map = File::small_letters();
  const auto with = [&](std::string changed) {
    file_.char_map = std::move(changed);
    return refused(file_);
  };
  const auto unit = [&](std::size_t at, u32 value) {
    std::string changed = map;
    for (std::size_t i = 0; i < 4; ++i) {
      changed[4 + 4 * at + i] = static_cast<char>(value >> (8 * i) & 0xFF);
    }
    return changed;
  };
  const std::string damaged = "has a damaged table of characters: ";
  EXPECT_THAT(with("abc"), HasSubstr(damaged + "it is cut short"));
  EXPECT_THAT(with(map.substr(0, 100)), HasSubstr(damaged + "its trie has another size"));
  EXPECT_THAT(with(map.substr(0, map.size() - 1)), HasSubstr(damaged + "its texts do not end"));
  EXPECT_THAT(with(unit(0, u32{768} << 10)), HasSubstr(damaged + "a unit has children outside"));
  EXPECT_THAT(with(unit(321, u32{321 ^ 1024} << 10 | 'A')),
              HasSubstr(damaged + "a unit has children outside"));
  EXPECT_THAT(with(unit(512, u32{1} << 31 | 2)), HasSubstr(damaged + "a text is outside of it"));
  EXPECT_THAT(with(unit(321, u32{321 ^ 256} << 10 | 'A')),
              HasSubstr(damaged + "it goes round in circles"));
}

TEST_F(SentencePieceTokenizer, FilesBesideItMayNotAddTokens) {
  const std::string folder = folder_.path().string();
  open(file_);
  folder_.write("added_tokens.json", R"({"<s>": 1})");
  folder_.write("tokenizer_config.json",
                R"({"added_tokens_decoder": {"0": {"content": "<unk>", "special": true}}})");
  EXPECT_EQ(at(folder)->vocabulary(), 8);
  folder_.write("added_tokens.json", R"({"<pad>": 8})");
  EXPECT_THAT(
      text_of<ConfigError>([&] { at(folder); }),
      HasSubstr("added_tokens.json makes \"<pad>\" the token 8, which it is not in tokenizer"
                ".model: this tokenizer has no tokens but those of the model"));
  EXPECT_EQ(at(folder + "/tokenizer.model")->vocabulary(), 8) << "the file alone";
  folder_.write("added_tokens.json", "{}");
  folder_.write("tokenizer_config.json", R"({"added_tokens_decoder": {"1": {"content": "<S>"}}})");
  EXPECT_THAT(text_of<ConfigError>([&] { at(folder); }),
              HasSubstr("tokenizer_config.json makes \"<S>\" the token 1, which it is not"));
}

}  // namespace sentencepiece_tokenizer_test
}  // namespace tessera
