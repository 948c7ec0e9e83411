// BERT's tokens over small files that are made here. tests/oracle compares with the package
// tokenizers.
#include <gtest/gtest.h>

#include <random>

#include "tessera/data.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace wordpiece_tokenizer_test {

using Ids = std::vector<i32>;

// Ids: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, un 5, ##aff 6, ##able 7, é 8, e 9, E 10,
// 漢 11, $ 12, ##e 13, , 14.
constexpr const char* kVocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\né\ne\nE\n漢\n$\n##e\n,\n";

class WordPieceTokenizer : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      open();
    } catch (const ConfigError& error) {
      if (std::string_view(error.what()).find("which this build is without") != std::string::npos)
        GTEST_SKIP() << error.what();
      throw;
    }
  }
  std::shared_ptr<Tokenizer> open(const std::string& keys = {},
                                  const std::string& text = kVocabulary) const {
    folder_.write("vocab.txt", text);
    TokenizerArguments none;
    return make_plugin<Tokenizer>(
        "wordpiece", "path = \"" + folder_.path().string() + "\"\n" + keys, none);
  }
  std::string refused(const std::string& text = kVocabulary) const {
    std::string error = text_of<ConfigError>([&] { open({}, text); });
    error.resize(error.find('\n'));  // who says so is the host's
    const std::string folder = folder_.path().string() + "/";
    const std::size_t at = error.find(folder);
    return at == error.npos ? error : error.substr(at + folder.size());
  }
  TestFolder folder_;
};

TEST_F(WordPieceTokenizer, LongestPiecesOfWords) {
  const auto bert = open();
  EXPECT_EQ(bert->encode("unaffable"), (Ids{5, 6, 7}));
  EXPECT_EQ(bert->encode(" UN  unaff,e\tÉe"), (Ids{5, 5, 6, 14, 9, 9, 13}));
  EXPECT_EQ(bert->encode("unaffx e"), (Ids{1, 9}));  // the whole word is unknown
  EXPECT_EQ(bert->encode("e$e漢e"), (Ids{9, 12, 9, 11, 9}));
  EXPECT_EQ(bert->encode("e\x01\xEF\xBF\xBD"
                         "e"),
            (Ids{9, 13}));  // a control character, U+FFFD
  EXPECT_EQ(bert->encode("\xFF"
                         "e"),
            (Ids{1, 9}));  // a byte that is no UTF-8
  EXPECT_EQ(bert->encode(""), Ids{});
  EXPECT_EQ(bert->decode({5, 6, 7, 14, 9}), "unaffable, e");
}

// A token of changed text that is listed sends all texts through BERT's steps; without one, words
// of ASCII are found directly.
TEST_F(WordPieceTokenizer, TheDirectWayFindsTheWordsOfTheSteps) {
  std::vector<std::string> parts = {"un",
                                    "aff",
                                    "able",
                                    "MASK",
                                    "\r\n",
                                    "\u00E9",
                                    "\u0301",
                                    "\u00A0",
                                    "\u2028",
                                    "\u6F22",
                                    "\u2014",
                                    "\uFFFD",
                                    "\xFF",
                                    "\u0130"};
  for (int byte = 0; byte < 128; ++byte) parts.emplace_back(1, static_cast<char>(byte));
  for (int i = 0; i < 20; ++i) {
    for (const char* often : {" ", "e", "E", ",", "un"}) parts.emplace_back(often);
  }
  std::mt19937 draws(3);
  std::vector<std::string> texts;
  for (int i = 0; i < 3000; ++i) {
    std::string& text = texts.emplace_back();
    for (auto count = draws() % 12; count > 0; --count) text += parts[draws() % parts.size()];
  }
  const std::string known = std::string(kVocabulary) + "<zq>\n";
  for (const char* config : {"{}",
                             R"({"do_lower_case": false})",
                             R"({"strip_accents": false})",
                             R"({"do_lower_case": false, "strip_accents": true})",
                             R"({"tokenize_chinese_chars": false})"}) {
    folder_.write("tokenizer_config.json", config);
    folder_.write("added_tokens.json", "{}");
    const auto direct = open({}, known);
    folder_.write("added_tokens.json", R"({"<zq>": 15})");
    const auto steps = open({}, known);
    for (const SpecialTexts special : {SpecialTexts::as_text, SpecialTexts::parsed}) {
      for (const std::string& text : texts) {
        ASSERT_EQ(direct->encode(text, special), steps->encode(text, special)) << config << text;
      }
    }
  }
}

TEST_F(WordPieceTokenizer, AWordOfAHundredCharactersIsCut) {
  const auto bert = open();
  const std::string word(100, 'e');
  EXPECT_EQ(bert->encode(word).size(), 100U);
  EXPECT_EQ(bert->encode(word + "e"), Ids{1});
}

TEST_F(WordPieceTokenizer, CapitalsAndAccentsByTheFileBesideIt) {
  EXPECT_EQ(open("lowercase = false\n")->encode("E é"), (Ids{10, 8}));
  EXPECT_EQ(open()->encode("E é"), (Ids{9, 9}));
  folder_.write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(open()->encode("E é"), (Ids{10, 8}));
  EXPECT_EQ(open("lowercase = true\n")->encode("E é"), (Ids{9, 9}));
  folder_.write("tokenizer_config.json", R"({"do_lower_case": true, "strip_accents": false})");
  EXPECT_EQ(open()->encode("E é"), (Ids{9, 8}));
}

TEST_F(WordPieceTokenizer, Roles) {
  const SpecialIds ids = open()->special_ids();
  EXPECT_EQ(ids.pad, 0);
  EXPECT_EQ(ids.unk, 1);
  EXPECT_EQ(ids.cls, 2);
  EXPECT_EQ(ids.sep, 3);
  EXPECT_EQ(ids.mask, 4);
  EXPECT_EQ(ids.bos, std::nullopt);
  // Who writes a text does not choose its tokens: brackets and letters are words.
  EXPECT_EQ(open()->encode("e[MASK]"), (Ids{9, 1, 1, 1}));
  EXPECT_EQ(open()->encode("e[MASK]", SpecialTexts::parsed), (Ids{9, 4}));
}

TEST_F(WordPieceTokenizer, TokensThatContinueAWord) {
  const auto bert = open();
  for (i32 id = 0; id < bert->vocabulary(); ++id) {
    EXPECT_EQ(bert->continues_word(id), id == 6 || id == 7 || id == 13) << id;
  }
  EXPECT_THROW(bert->continues_word(static_cast<i32>(bert->vocabulary())), Error);
  EXPECT_THROW(bert->continues_word(-1), Error);
}

// As transformers has it: tokens that the files beside it list are found in a text, whatever role
// they have.
TEST_F(WordPieceTokenizer, ListedTokensAreTokensOfATextToo) {
  const std::string more = std::string(kVocabulary) + "[unused1]\n<x>\n";
  folder_.write("tokenizer_config.json",
                R"({"tokenizer_class": "BertTokenizer", "added_tokens_decoder": {"15": {"content":
                    "[unused1]", "special": true, "normalized": false, "lstrip": false}}})");
  folder_.write("added_tokens.json", R"({"<x>": 16})");
  const auto bert = open({}, more);
  EXPECT_EQ(bert->encode("e[unused1]<X>", SpecialTexts::parsed), (Ids{9, 15, 16}));
  EXPECT_EQ(bert->encode("e<x>"), (Ids{9, 16}));
  EXPECT_EQ(bert->encode("[unused1]").size(), 3U);  // special: text, unless it is parsed
}

TEST_F(WordPieceTokenizer, RolesOfOtherNames) {
  const std::string other = "<pad>\n<unk>\n<s>\n</s>\n<mask>\ne\n";
  folder_.write("special_tokens_map.json",
                R"({"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>",
                    "sep_token": {"content": "</s>", "lstrip": false}, "mask_token": "<mask>"})");
  const auto bert = open({}, other);
  EXPECT_EQ(bert->special_ids().sep, 3);
  EXPECT_EQ(bert->encode("x e"), (Ids{1, 5}));
}

TEST_F(WordPieceTokenizer, IsTheTokenizerOfTheSameTokenizerJson) {
  std::string vocabulary, added;
  i32 id = 0;
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff"}) {
    const std::string number = std::to_string(id++);
    vocabulary += (vocabulary.empty() ? "\"" : ", \"") + std::string(token) + "\": " + number;
    if (token[0] != '[') continue;
    added += (added.empty() ? "" : ", ") + std::string(R"({"id": )") + number +
             R"(, "content": ")" + token +
             R"(", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
                "special": true})";
  }
  // As the library writes it: the unknown token first among the model's roles.
  folder_.write("tokenizer.json",
                R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [)" +
                    added + R"(], "normalizer": {"type": "BertNormalizer", "clean_text": true,
                "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
                "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor":
                {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}, "decoder":
                {"type": "WordPiece", "prefix": "##", "cleanup": true}, "model": {"type":
                "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100, "vocab": {)" +
                    vocabulary + "}}}");
  TokenizerArguments none;
  const auto other =
      make_plugin<Tokenizer>("huggingface", "path = \"" + folder_.path().string() + "\"\n", none);
  const auto bert = open({}, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n");
  EXPECT_EQ(bert->encode("Unaff un x"), (Ids{5, 6, 5, 1}));
  EXPECT_EQ(other->encode("Unaff un x"), (Ids{5, 6, 5, 1}));
  EXPECT_EQ(other->decode({5, 6}), "unaff");
  EXPECT_EQ(other->fingerprint(), bert->fingerprint());
  folder_.write("tokenizer_config.json", R"({"do_lower_case": false})");
  const std::string error = text_of<ConfigError>([&] {
    make_plugin<Tokenizer>("huggingface", "path = \"" + folder_.path().string() + "\"\n", none);
  });
  EXPECT_NE(error.find("tokenizer_config.json has do_lower_case = false, and the normalizer of "
                       "tokenizer.json does the opposite"),
            std::string::npos)
      << error;
}

TEST_F(WordPieceTokenizer, DamagedFilesAreRefused) {
  EXPECT_EQ(refused("[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n"),
            "vocab.txt has no [MASK], the mask_token of BERT");
  EXPECT_EQ(refused("[PAD]\n[UNK]\nun\n[CLS]\nun\n"), "vocab.txt:5: \"un\" is on line 3 too");
  EXPECT_EQ(refused("[PAD]\n\n[UNK]\n"), "vocab.txt:2: there is no token on this line");
  EXPECT_EQ(refused("[PAD]\n\xFF\n"), "vocab.txt:2: the token is no UTF-8");
  EXPECT_EQ(refused(""), "vocab.txt has no tokens");
  folder_.write("tokenizer_config.json", R"({"do_basic_tokenize": false})");
  EXPECT_EQ(refused(),
            "tokenizer_config.json has do_basic_tokenize = false; only true is supported");
  folder_.write("tokenizer_config.json", R"({"tokenise": 1})");
  EXPECT_EQ(refused().substr(0, 40), "tokenizer_config.json has tokenise = 1, ");
  folder_.write("tokenizer_config.json", R"({"tokenizer_class": "RoFormerTokenizer"})");
  EXPECT_EQ(
      refused(),
      "tokenizer_config.json has tokenizer_class = \"RoFormerTokenizer\", which the tokenizer "
      "wordpiece does not do");
  folder_.write("tokenizer_config.json",
                R"({"added_tokens_decoder": {"6": {"content": "un", "special": true}}})");
  EXPECT_EQ(refused(), "tokenizer_config.json gives \"un\" the id 6, and vocab.txt 5");
  folder_.write("tokenizer_config.json", "{}");
  folder_.write("added_tokens.json", R"({"un": 15})");
  EXPECT_EQ(refused(), "added_tokens.json gives \"un\" the id 15, and vocab.txt 5");
  folder_.write("added_tokens.json", R"({"[NEW]": 15})");
  EXPECT_EQ(refused(),
            "added_tokens.json: \"[NEW]\" is \"[NEW]\", which vocab.txt does not have; a "
            "tokenizer.json may add tokens (type = \"huggingface\")");
}

TEST_F(WordPieceTokenizer, LinesOfWindowsAndALastLineWithoutEnd) {
  const auto bert = open({}, "[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\nun");
  EXPECT_EQ(bert->vocabulary(), 6);
  EXPECT_EQ(bert->encode("un"), Ids{5});
}

}  // namespace wordpiece_tokenizer_test
}  // namespace tessera
