// Tokenizers of Hugging Face over small files that are made here. tests/oracle compares with the
// package tokenizers.
#include <gmock/gmock.h>

#include "tessera/data.hpp"
#include "tests/common/gpt2_files.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace huggingface_tokenizer_test {

using ::testing::HasSubstr;
using Ids = std::vector<i32>;

// Ids: a 0, b 1, c 2, ▁ 3, ab 4, ▁a 5, <unk> 6, <0xC3> 7, <0xA9> 8.
constexpr const char* kVocabulary =
    R"({"a": 0, "b": 1, "c": 2, "▁": 3, "ab": 4, "▁a": 5, "<unk>": 6, "<0xC3>": 7, "<0xA9>": 8})";
constexpr const char* kMetaspace =
    R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true})";

struct File {
  std::string vocabulary = kVocabulary, merges = R"([["▁", "a"], "a b"])";
  std::string rules = R"("unk_token": "<unk>")";
  std::string normalizer = "null", pre_tokenizer = "null", post_processor = "null";
  std::string decoder = "null", added = "[]";

  std::string text() const {
    return R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": )" + added +
           R"(, "normalizer": )" + normalizer + R"(, "pre_tokenizer": )" + pre_tokenizer +
           R"(, "post_processor": )" + post_processor + R"(, "decoder": )" + decoder +
           R"(, "model": {"type": "BPE", "vocab": )" + vocabulary + R"(, "merges": )" + merges +
           (rules.empty() ? "" : ", ") + rules + "}}";
  }
};

std::string added(int id, const std::string& content, const std::string& flags = {}) {
  std::string token = R"({"id": )" + std::to_string(id) + R"(, "content": ")" + content + "\"";
  for (const std::string flag : {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
    const bool set = flags.find(flag) != std::string::npos;
    token += ", \"" + flag + "\": " + (set ? "true" : "false");
  }
  return token + "}";
}

Ids parsed(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.encode(text, SpecialTexts::parsed);
}

std::string sequence(const char* list, const std::string& steps) {
  return std::string(R"({"type": "Sequence", ")") + list + "\": [" + steps + "]}";
}

std::string split(const std::string& pattern, const std::string& behavior, bool invert = false) {
  return R"({"type": "Split", "pattern": {"Regex": ")" + pattern + R"("}, "behavior": ")" +
         behavior + R"(", "invert": )" + (invert ? "true}" : "false}");
}

class HuggingFaceTokenizer : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      File file;
      file.pre_tokenizer =
          sequence("pretokenizers",
                   split("a", "Isolated") + R"(, {"type": "Digits", "individual_digits": true})");
      open(file);
    } catch (const ConfigError& error) {
      if (std::string_view(error.what()).find("which this build is without") != std::string::npos)
        GTEST_SKIP() << error.what();
      throw;
    }
  }
  std::shared_ptr<Tokenizer> open(const File& file, const std::string& keys = {}) const {
    return open(file.text(), keys);
  }
  std::shared_ptr<Tokenizer> open(const std::string& text, const std::string& keys = {}) const {
    folder_.write("tokenizer.json", text);
    TokenizerArguments none;
    return make_plugin<Tokenizer>(
        "huggingface", "path = \"" + folder_.path().string() + "\"\n" + keys, none);
  }
  Ids ids(const File& file, const std::string& text) const { return open(file)->encode(text); }
  std::string refused(const File& file) const { return refused(file.text()); }
  std::string refused(const std::string& text) const {
    return text_of<ConfigError>([&] { open(text); });
  }
  TestFolder folder_;
};

TEST_F(HuggingFaceTokenizer, MergesAndUnknownCharacters) {
  File file;
  EXPECT_EQ(ids(file, "abab"), (Ids{4, 4}));
  EXPECT_EQ(ids(file, "a?!b"), (Ids{0, 6, 6, 1}));
  file.rules += R"(, "fuse_unk": true)";
  EXPECT_EQ(ids(file, "a?!b"), (Ids{0, 6, 1}));
  file.rules += R"(, "byte_fallback": true)";
  EXPECT_EQ(ids(file, "aé"), (Ids{0, 7, 8}));
  // As tokenizers 0.23.3 has it, bytes go before an unknown character that waits.
  EXPECT_EQ(ids(file, "€éa"), (Ids{7, 8, 6, 0}));
  file.rules = "";
  EXPECT_EQ(ids(file, "a?b"), (Ids{4}));  // left out, and said in a warning
  file.rules = R"("ignore_merges": true)";
  file.vocabulary = R"({"a": 0, "b": 1, "ab": 2, "aba": 3})";
  file.merges = R"(["a b"])";
  EXPECT_EQ(ids(file, "aba"), (Ids{3}));
  EXPECT_EQ(ids(file, "abab"), (Ids{2, 2}));
}

TEST_F(HuggingFaceTokenizer, MetaspaceMarksSpaces) {
  File file;
  file.pre_tokenizer = kMetaspace;
  file.decoder = sequence("decoders", R"({"type": "ByteFallback"}, )" + std::string(kMetaspace));
  file.added = "[" + added(9, "[x]", "special") + "]";
  const auto tokenizer = open(file);
  EXPECT_EQ(tokenizer->encode("ab a"), (Ids{5, 1, 5}));
  EXPECT_EQ(tokenizer->encode("  a"), (Ids{3, 5}));
  EXPECT_EQ(parsed(*tokenizer, "a[x]a"), (Ids{5, 9, 0}));  // "first": only where a text begins
  EXPECT_EQ(tokenizer->decode({5, 1, 5, 7, 8}), "ab aé");
  EXPECT_EQ(tokenizer->decode({0, 7}), "a\xC3");
  EXPECT_THAT(text_of<Error>([&] { tokenizer->decode({10}); }),
              HasSubstr("tokenizer huggingface: the ids are 0 to 9, not 10"));
}

TEST_F(HuggingFaceTokenizer, LlamaNormalizesAndDecodes) {
  File file;
  file.normalizer = sequence("normalizers",
                             R"({"type": "Prepend", "prepend": "▁"}, )"
                             R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})");
  file.decoder = sequence("decoders",
                          R"({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, )"
                          R"({"type": "ByteFallback"}, {"type": "Fuse"}, )"
                          R"({"type": "Strip", "content": " ", "start": 1, "stop": 0})");
  const auto tokenizer = open(file);
  EXPECT_EQ(tokenizer->encode("b a"), (Ids{3, 1, 5}));
  EXPECT_EQ(tokenizer->decode({3, 1, 5}), "b a");
  EXPECT_EQ(tokenizer->encode(""), Ids{});
}

TEST_F(HuggingFaceTokenizer, NormalForms) {
  File file;
  file.vocabulary = R"({"é": 0, "e": 1, "́": 2, "fi": 3, "f": 4, "i": 5, "ﬁ": 6})";
  file.merges = "[]";
  file.rules = "";
  for (const auto& [form, expected] : {std::pair{"NFC", Ids{0, 6}},
                                       {"NFD", Ids{1, 2, 6}},
                                       {"NFKC", Ids{0, 4, 5}},
                                       {"NFKD", Ids{1, 2, 4, 5}},
                                       {"Lowercase", Ids{1, 2, 6}}}) {
    file.normalizer = R"({"type": ")" + std::string(form) + "\"}";
    EXPECT_EQ(ids(file, "e\u0301ﬁ"), expected) << form;
  }
}

// "1a2" by a digit: what the four behaviors do with matches.
TEST_F(HuggingFaceTokenizer, MatchesCutOrJoin) {
  File file;
  file.vocabulary = R"({"a": 0, "1": 1, "2": 2, "1a": 3, "a2": 4, "12": 5, "a1": 6})";
  file.merges = R"(["1 a", "a 2", "1 2", "a 1"])";
  file.rules = "";
  const auto cut = [&](const std::string& behavior, const std::string& text, bool invert = false) {
    file.pre_tokenizer = split("\\\\d", behavior, invert);
    return ids(file, text);
  };
  EXPECT_EQ(cut("Isolated", "1a12"), (Ids{1, 0, 1, 2}));
  EXPECT_EQ(cut("Removed", "1a12"), (Ids{0}));
  EXPECT_EQ(cut("Removed", "1a12", true), (Ids{1, 1, 2}));
  EXPECT_EQ(cut("Contiguous", "1a12"), (Ids{1, 0, 5}));
  EXPECT_EQ(cut("MergedWithPrevious", "1a12"), (Ids{1, 6, 2}));
  EXPECT_EQ(cut("MergedWithNext", "1a12"), (Ids{3, 1, 2}));
  file.pre_tokenizer = R"({"type": "Digits", "individual_digits": false})";
  EXPECT_EQ(ids(file, "1a12"), (Ids{1, 0, 5}));
}

TEST_F(HuggingFaceTokenizer, AddedTokensTakeWhatTheirFlagsSay) {
  File file;
  file.rules = R"("unk_token": "<unk>", "fuse_unk": true)";
  file.added = "[" + added(9, "L", "lstrip") + ", " + added(10, "R", "rstrip") + ", " +
               added(11, "W", "single_word") + ", " + added(12, "LL", "special") + "]";
  const auto tokenizer = open(file);
  EXPECT_EQ(tokenizer->encode("a  L b"), (Ids{0, 9, 6, 1}));
  EXPECT_EQ(tokenizer->encode("a R  b"), (Ids{0, 6, 10, 1}));
  EXPECT_EQ(tokenizer->encode("W aW"), (Ids{11, 6, 0, 6}));
  EXPECT_EQ(parsed(*tokenizer, "aLLL"), (Ids{0, 12, 9}));  // the longest
  EXPECT_EQ(tokenizer->encode("aLLL"), (Ids{0, 6, 9}));    // as text it hides what lies within it
  EXPECT_EQ(open(file, "most_tokens = 12")->encode("aLLL"), (Ids{0, 9, 9, 9}));
  EXPECT_EQ(open(file, "most_tokens = 12")->vocabulary(), 12);
  file.normalizer = R"({"type": "Lowercase"})";
  file.added = "[" + added(9, "X", "normalized") + ", " + added(10, "Y") + "]";
  EXPECT_EQ(ids(file, "xXyY"), (Ids{9, 9, 6, 10}));
}

TEST_F(HuggingFaceTokenizer, SpecialTokensAreTextUnlessTheyAreParsed) {
  File file;
  file.added = "[" + added(9, "ca", "special") + ", " + added(10, "ba") + "]";
  const auto tokenizer = open(file);
  EXPECT_TRUE(tokenizer->has_special_texts());
  EXPECT_EQ(parsed(*tokenizer, "cab"), (Ids{9, 1}));
  EXPECT_EQ(tokenizer->encode("cab"), (Ids{2, 4}));
  EXPECT_EQ(tokenizer->encode("cba"), (Ids{2, 10}));
  File plain = file;
  plain.added = "[" + added(9, "ca") + ", " + added(10, "ba") + "]";
  EXPECT_FALSE(open(plain)->has_special_texts());
  EXPECT_EQ(open(plain)->encode("cab"), (Ids{9, 1}));
  EXPECT_NE(open(plain)->fingerprint(), open(file)->fingerprint()) << "it decides ids";
}

TEST_F(HuggingFaceTokenizer, TheEndOfATextIsNamedByTheFilesBesideIt) {
  File file;
  file.added = "[" + added(9, "</s>", "special") + "]";
  const auto ends = [&](const std::string& config) {
    folder_.write("tokenizer_config.json", config);
    return open(file)->special_ids();
  };
  EXPECT_EQ(open(file)->special_ids().eos, Ids{});
  EXPECT_EQ(ends(R"({"eos_token": "</s>", "bos_token": {"content": "a"}})").eos, Ids{9});
  EXPECT_EQ(open(file)->special_ids().bos, 0);
  EXPECT_EQ(ends(R"({"eos_token": null})").eos, Ids{});
  EXPECT_EQ(ends(R"({"eos_token": "<none>"})").eos, Ids{}) << "a warning says it";
  EXPECT_THAT(text_of<ConfigError>([&] { ends(R"({"eos_token": 3})"); }),
              HasSubstr("tokenizer_config.json: \"eos_token\" is 3, which is not a token"));
  EXPECT_THAT(text_of<ConfigError>([&] { ends("{"); }), HasSubstr("is damaged: parse error"));
}

TEST_F(HuggingFaceTokenizer, BytesThatAreNoTextStandBetweenTexts) {
  testing::Gpt2Files bytes;
  const i32 he = bytes.merge("h", "e");
  File file;
  file.vocabulary = bytes.vocabulary();
  file.merges = R"(["h e"])";
  file.rules = "";
  file.pre_tokenizer = file.decoder =
      R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true})";
  const auto tokenizer = open(file);
  EXPECT_EQ(tokenizer->encode("he\xFF"), (Ids{he, 0xFF}));
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(all)), all);
}

TEST_F(HuggingFaceTokenizer, TheFingerprintIsOfAllThatDecidesIds) {
  File file;
  const std::string first = open(file)->fingerprint();
  EXPECT_THAT(first, ::testing::StartsWith("huggingface: 9 tokens, "));
  File other = file;
  other.decoder = R"({"type": "Fuse"})";
  EXPECT_EQ(open(other)->fingerprint(), first);
  other = file;
  other.rules += R"(, "fuse_unk": true)";
  EXPECT_NE(open(other)->fingerprint(), first);
  other = file;
  other.pre_tokenizer = kMetaspace;
  EXPECT_NE(open(other)->fingerprint(), first);
  other = file;
  other.normalizer = R"({"type": "NFC"})";
  EXPECT_NE(open(other)->fingerprint(), first);
}

TEST_F(HuggingFaceTokenizer, WhatIsNotKnownIsNamedByItsPlace) {
  const std::string file = "tokenizer.path: " + folder_.path().string() + "/tokenizer.json: ";
  const auto with = [&](std::string File::*part, const std::string& value) {
    File changed;
    changed.*part = value;
    return refused(changed);
  };
  const std::string digits = R"({"type": "Digits", "individual_digits": true}, )";
  EXPECT_THAT(
      with(&File::pre_tokenizer,
           sequence("pretokenizers", digits + R"({"type": "UnicodeScripts"})")),
      HasSubstr(file + R"(pre_tokenizer.pretokenizers[1].type "UnicodeScripts" is not known)"));
  EXPECT_THAT(with(&File::normalizer, R"({"type": "NFC", "x": 1})"),
              HasSubstr(file + "normalizer.x 1 is not known"));
  EXPECT_THAT(with(&File::decoder, R"({"type": "CTC"})"),
              HasSubstr(file + R"(decoder.type "CTC" is not known)"));
  EXPECT_THAT(with(&File::post_processor, R"({"type": "RobertaProcessing"})"),
              HasSubstr(file + R"(post_processor.type "RobertaProcessing" is not known)"));
  EXPECT_THAT(with(&File::rules, R"("dropout": 0.1)"),
              HasSubstr(file + "model.dropout 0.1 would change the tokens of a text"));
  EXPECT_THAT(with(&File::rules, R"("end_of_word_suffix": "</w>")"),
              HasSubstr(file + R"(model.end_of_word_suffix "</w>" is not known)"));
  EXPECT_THAT(with(&File::rules, R"("unk_token": "[UNK]")"),
              HasSubstr(file + R"(model.unk_token "[UNK]" is not in model.vocab)"));
  EXPECT_THAT(with(&File::merges, R"(["a  b"])"),
              HasSubstr(file + R"(model.merges[0] "a  b" is not two tokens)"));
  EXPECT_THAT(with(&File::merges, R"(["a c"])"),
              HasSubstr(R"("a c" needs "ac", which is not in tokenizer.json)"));
  EXPECT_THAT(with(&File::vocabulary, R"({"a": -1})"),
              HasSubstr(file + R"(model.vocab gives "a" the id -1, which is not a number from 0)"));
  EXPECT_THAT(with(&File::added, "[" + added(20, "[x]") + "]"),
              HasSubstr(file + R"(added_tokens[0].id 20 is not 9, which "[x]" has in the)"));
  EXPECT_THAT(with(&File::pre_tokenizer, split("(", "Isolated")),
              HasSubstr(file + "pre_tokenizer.pattern.Regex is no pattern: missing closing paren"));
  EXPECT_THAT(
      with(&File::pre_tokenizer, split("[[:alpha:]]", "Isolated")),
      HasSubstr("pattern.Regex has \"[:\" at byte 1, which the tokenizer huggingface does"));
  EXPECT_THAT(with(&File::pre_tokenizer, split("a", "Around")),
              HasSubstr(file + R"(pre_tokenizer.behavior "Around" is not known)"));
  EXPECT_THAT(refused("{}"), HasSubstr(file + "model is missing"));
  EXPECT_THAT(refused("[]"), HasSubstr("it is a JSON array instead of an object"));
  const std::string good = File().text();
  EXPECT_THAT(refused(good.substr(0, good.size() / 2)), HasSubstr("is damaged: parse error"));
  TokenizerArguments none;
  EXPECT_THAT(text_of<ConfigError>(
                  [&] { make_plugin<Tokenizer>("huggingface", "path = \"/nowhere\"", none); }),
              HasSubstr("tokenizer.path: /nowhere does not exist; give a tokenizer.json, or its"));
}

}  // namespace huggingface_tokenizer_test
}  // namespace tessera
