// GPT-2's tokens over a small vocabulary that is made here. tests/oracle compares with others'
// code.
#include <gmock/gmock.h>

#include <chrono>
#include <random>

#include "tessera/data.hpp"
#include "tests/common/gpt2_files.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace gpt2_tokenizer_test {

using ::testing::HasSubstr;
using Ids = std::vector<i32>;

using testing::Gpt2Files;

Ids parsed(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.encode(text, SpecialTexts::parsed);
}
using testing::written_byte;

class Gpt2Tokenizer : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      open();
    } catch (const ConfigError& error) {
      if (std::string_view(error.what()).find("without: install libpcre2-dev") != std::string::npos)
        GTEST_SKIP() << error.what();
    }
  }
  std::shared_ptr<Tokenizer> open(const std::string& keys = {}) const {
    return open(files_.vocabulary(), files_.merges(), keys);
  }
  std::shared_ptr<Tokenizer> open(const std::string& vocabulary,
                                  const std::string& merges,
                                  const std::string& keys = {}) const {
    folder_.write("vocab.json", vocabulary);
    folder_.write("merges.txt", merges);
    TokenizerArguments none;
    return make_plugin<Tokenizer>(
        "gpt2", "path = \"" + folder_.path().string() + "\"\n" + keys, none);
  }
  std::string refused(const std::string& vocabulary, const std::string& merges) const {
    return text_of<ConfigError>([&] { open(vocabulary, merges); });
  }
  Gpt2Files files_;
  TestFolder folder_;
};

TEST_F(Gpt2Tokenizer, TheFingerprintIsOfAllThatDecidesIds) {
  files_.merge("h", "e");
  files_.merge("l", "l");
  files_.add("<|endoftext|>");
  files_.add("<|pad|>");
  const std::string vocabulary = files_.vocabulary(), merges = files_.merges();
  const auto fingerprint =
      [&](const std::string& tokens, const std::string& pairs, const std::string& keys = {}) {
        return open(tokens, pairs, keys)->fingerprint();
      };
  const std::string first = fingerprint(vocabulary, merges);
  EXPECT_THAT(first, ::testing::StartsWith("gpt2: 260 tokens, "));
  const auto swapped = [](std::string text, const std::string& a, const std::string& b) {
    const auto at = text.find(a), other = text.find(b);
    text.replace(std::max(at, other), (at > other ? a : b).size(), at > other ? b : a);
    text.replace(std::min(at, other), (at > other ? b : a).size(), at > other ? a : b);
    return text;
  };
  EXPECT_NE(fingerprint(swapped(vocabulary, "\"he\"", "\"ll\""), merges), first) << "ids";
  EXPECT_NE(fingerprint(vocabulary, swapped(merges, "h e", "l l")), first) << "order of merges";
  EXPECT_NE(fingerprint(vocabulary, merges, "special = [\"<|pad|>\"]"), first) << "special tokens";
  // What decides no id: a word that is no token, a heading, white space.
  EXPECT_EQ(fingerprint(vocabulary, merges, "special = [\"<|endoftext|>\", \"<|none|>\"]"), first);
  EXPECT_EQ(fingerprint(" " + vocabulary, merges.substr(merges.find('\n') + 1)), first);
}

TEST_F(Gpt2Tokenizer, MergesInTheOrderOfTheFile) {
  const i32 he = files_.merge("h", "e"), ll = files_.merge("l", "l");
  const i32 hell = files_.merge("he", "ll"), o = 'o';
  const i32 lo = files_.merge("l", "o");
  const auto tokenizer = open();
  EXPECT_EQ(tokenizer->vocabulary(), 260);
  EXPECT_EQ(tokenizer->encode("hello"), (Ids{hell, o}));
  EXPECT_EQ(tokenizer->encode("helo"), (Ids{he, lo}));
  EXPECT_EQ(tokenizer->encode("lll"), (Ids{ll, 'l'}));  // the leftmost of equal pairs
  EXPECT_EQ(tokenizer->encode(""), Ids{});
}

TEST_F(Gpt2Tokenizer, NothingIsMergedAcrossWords) {
  const i32 space_a = files_.merge("\u0120", "a"), ab = files_.merge("a", "b");
  const i32 spaces = files_.merge("\u0120", "\u0120"), s = files_.merge("'", "s");
  const i32 digits = files_.merge("1", "2");
  files_.merge("b", "1");
  files_.merge("s", "\u0120");
  const auto tokenizer = open();
  EXPECT_EQ(tokenizer->encode("ab a"), (Ids{ab, space_a}));
  EXPECT_EQ(tokenizer->encode("ab12"), (Ids{ab, digits}));
  EXPECT_EQ(tokenizer->encode("a's a"), (Ids{'a', s, space_a}));
  // The last of several spaces belongs to the word.
  EXPECT_EQ(tokenizer->encode("a   a"), (Ids{'a', spaces, space_a}));
  EXPECT_EQ(tokenizer->encode("a  "), (Ids{'a', spaces}));
  // White space of Unicode is no letter, and letters of all scripts make one word.
  EXPECT_EQ(tokenizer->encode("a\u00a0ab"), (Ids{'a', 0xC2, 0xA0, ab}));
  EXPECT_EQ(tokenizer->encode(" \u03b1ab"), (Ids{' ', 0xCE, 0xB1, ab}));
}

TEST_F(Gpt2Tokenizer, AnyBytesComeBack) {
  files_.merge("\u0120", "a");
  files_.merge(written_byte(0xC3), written_byte(0xA9));  // é
  const auto tokenizer = open();
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(all)), all);
  const auto encoder = tokenizer->encoder();
  std::mt19937 random(1);
  const std::vector<std::string> pieces = {" a",
                                           "\xC3\xA9",
                                           "\xC3",
                                           "\xA9",
                                           "\xED\xA0\x80",
                                           "\xF4\x90\x80\x80",
                                           "\xE2\x82\xAC",
                                           "\n",
                                           " ",
                                           "'s",
                                           "<|endoftext|>",
                                           std::string(1, '\0'),
                                           "\xFF",
                                           "12"};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (unsigned i = random() % 12; i > 0; --i) text += pieces[random() % pieces.size()];
    for (const i32 id : tokenizer->encode(text)) ASSERT_LT(id, tokenizer->vocabulary());
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
    Ids kept;
    encoder->append(text, kept);
    ASSERT_EQ(kept, tokenizer->encode(text)) << "with what it knows of texts before";
  }
  EXPECT_THAT(text_of<Error>([&] { tokenizer->decode({258}); }), HasSubstr("the ids are 0 to 257"));
}

TEST_F(Gpt2Tokenizer, SpecialTextsAreOneToken) {
  const i32 end = files_.add("<|endoftext|>"), start = files_.add("<|endoftext|>2");
  EXPECT_EQ(parsed(*open(), "a<|endoftext|>b<|endoftext|><|endo"),
            (Ids{'a', end, 'b', end, '<', '|', 'e', 'n', 'd', 'o'}));
  const std::string text = "<|endoftext|>";
  EXPECT_EQ(open()->encode(text), Ids(text.begin(), text.end())) << "who wrote it does not choose";
  EXPECT_TRUE(open()->has_special_texts());
  EXPECT_EQ(open()->special_ids().eos, Ids{end});
  EXPECT_EQ(open()->decode({'a', end, 'b'}), "a<|endoftext|>b");
  const auto two = open("special = [\"<|endoftext|>\", \"<|endoftext|>2\", \"<|absent|>\"]");
  EXPECT_EQ(parsed(*two, "<|endoftext|>2<|endoftext|>"), (Ids{start, end}));  // the longest
  const auto none = open("special = []");
  EXPECT_GT(parsed(*none, "<|endoftext|>").size(), 5U);
  EXPECT_FALSE(none->has_special_texts());
  EXPECT_EQ(none->special_ids().eos, Ids{});
}

// As transformers reads a folder: tokenizer_config.json adds tokens to those of the vocabulary.
TEST_F(Gpt2Tokenizer, FilesBesideTheVocabularyAddTokens) {
  const i32 th = files_.merge("t", "h"), pad = th + 1;
  const auto said = [&](const std::string& config) {
    folder_.write("tokenizer_config.json", config);
    return text_of<ConfigError>([&] { open(); });
  };
  folder_.write("tokenizer_config.json",
                R"({"additional_special_tokens": [{"content": "th", "lstrip": false}],)"
                R"( "pad_token": "<|pad|>", "model_max_length": 1024, "unk_token": null})");
  EXPECT_EQ(open()->vocabulary(), pad + 1);
  EXPECT_EQ(parsed(*open(), "oth<|pad|>"), (Ids{'o', th, pad}));  // "oth" is one word otherwise
  EXPECT_EQ(open()->decode({pad, th}), "<|pad|>th");
  EXPECT_EQ(open("most_tokens = 257")->vocabulary(), 257);
  EXPECT_EQ(parsed(*open("most_tokens = 257"), "<|pad|>").size(), 7U);
  EXPECT_THAT(text_of<ConfigError>([&] { open("special = [\"th\"]"); }),
              HasSubstr("tokenizer.special leaves out \"<|pad|>\", which the files of"));
  EXPECT_THAT(
      said(R"({"additional_special_tokens": [{"content": "th", "lstrip": true}]})"),
      HasSubstr("tokenizer_config.json has additional_special_tokens.lstrip = true; only false"));
  EXPECT_THAT(said(R"({"pad_token": "<|pad|>", "mask_token": "<|mask|>"})"),
              HasSubstr("names \"<|mask|>\" and \"<|pad|>\", which have no ids in"));
  EXPECT_THAT(
      said(R"({"tokenizer_class": "BertTokenizer"})"),
      HasSubstr("has tokenizer_class = \"BertTokenizer\", which the tokenizer gpt2 does not"));
  EXPECT_THAT(said(R"({"extra_special_tokens": {"a\nb": 3}})"),
              HasSubstr(R"("extra_special_tokens.a\nb" is 3, which is not a token)"));
  EXPECT_THAT(
      said(R"({"word_delimiter_token": "|"})"),
      HasSubstr("has word_delimiter_token = \"|\", which the tokenizer gpt2 does not know"));
}

// What is added without being special is a token in every text; transformers, told to split special
// tokens, does the same.
TEST_F(Gpt2Tokenizer, AddedTokensThatAreNotSpecialAreAlwaysTokens) {
  const i32 one = files_.add("<one>"), two = files_.add("<two>");
  const std::string first = open()->fingerprint();
  const auto config = [&](const char* special) {
    return R"({"tokenizer_class": "PreTrainedTokenizerFast", "added_tokens_decoder": {"256": )"
           R"({"content": "<one>", "special": true}, "257": {"content": "<two>", "special": )" +
           std::string(special) + "}}}";
  };
  folder_.write("tokenizer_config.json", config("true"));
  const std::string both = open()->fingerprint();
  EXPECT_EQ(open()->encode("<two>"), (Ids{'<', 't', 'w', 'o', '>'}));
  folder_.write("tokenizer_config.json", config("false"));
  EXPECT_EQ(open()->encode("<two>"), Ids{two});
  EXPECT_EQ(open()->encode("<one>"), (Ids{'<', 'o', 'n', 'e', '>'}));
  EXPECT_EQ(parsed(*open(), "<one><two>"), (Ids{one, two}));
  EXPECT_NE(open()->fingerprint(), both) << "it decides ids";
  EXPECT_NE(first, both);
}

TEST_F(Gpt2Tokenizer, TheEndOfATextIsNamedByTheFiles) {
  const i32 end = files_.add("<|endoftext|>"), other = files_.add("<end>");
  const auto ends = [&](const std::string& config) {
    folder_.write("tokenizer_config.json", config);
    return open()->special_ids();
  };
  EXPECT_EQ(open()->special_ids().eos, Ids{end});
  EXPECT_EQ(ends("{}").bos, end);
  EXPECT_EQ(ends(R"({"eos_token": "<end>"})").eos, Ids{other});
  EXPECT_EQ(ends(R"({"eos_token": {"content": "<end>"}})").eos, Ids{other});
  EXPECT_EQ(ends(R"({"eos_token": null})").eos, Ids{});
  EXPECT_EQ(ends("{}").eos, Ids{end});
  folder_.write("special_tokens_map.json", R"({"eos_token": "<end>"})");
  EXPECT_EQ(ends("{}").eos, Ids{other});
}

TEST_F(Gpt2Tokenizer, BrokenFilesAreNamedWithWhatIsWrong) {
  const std::string good = files_.vocabulary(), none = files_.merges();
  EXPECT_THAT(refused("", none), HasSubstr("/vocab.json is damaged: parse error at line 1"));
  EXPECT_THAT(refused("[1]", none), HasSubstr("it is a JSON array instead of an object"));
  EXPECT_THAT(refused("{}", none), HasSubstr("vocab.json is damaged: it has no tokens"));
  EXPECT_THAT(refused("{\"a\": 0}", none), HasSubstr("has no token \"\u0100\" for the byte 0x00"));
  EXPECT_THAT(refused("{\"a\": 1}", none), HasSubstr("must be 0 to 0, each once, but \"a\" has 1"));
  EXPECT_THAT(refused("{\"a\": -1}", none), HasSubstr("\"a\" has -1"));
  EXPECT_THAT(refused("{\"a\": \"0\"}", none), HasSubstr("\"a\" has \"0\""));
  EXPECT_THAT(refused("{\"a\": 0, \"b\": 0}", none), HasSubstr("\"b\" has 0"));
  for (const std::string line : {"ab", "a  b", " a", "a ", "a b c"}) {
    EXPECT_THAT(refused(good, none + line),
                HasSubstr("merges.txt:2: \"" + line + "\" is not two tokens with a space"));
  }
  EXPECT_THAT(refused(good, none + "\r\n\nx y\n"),
              HasSubstr("merges.txt:4: \"x y\" needs \"xy\", which is not in vocab.json"));
  TokenizerArguments arguments;
  EXPECT_THAT(text_of<ConfigError>(
                  [&] { make_plugin<Tokenizer>("gpt2", "path = \"/nowhere\"", arguments); }),
              HasSubstr("tokenizer.path: /nowhere/vocab.json does not exist; give a folder with"));
}

// A text without spaces is one word: it must not take the square of its length.
TEST_F(Gpt2Tokenizer, LongWordsAndLongTextsTakeTheirTimeOnly) {
  std::string token = "a";
  for (int i = 0; i < 6; ++i) {
    files_.merge(token, token);
    token += token;
  }
  const auto tokenizer = open();
  const auto begin = std::chrono::steady_clock::now();
  constexpr std::size_t kLong = 1 << 18;  // its square is a minute
  EXPECT_EQ(tokenizer->encode(std::string(kLong, 'a')).size(), kLong / 64);
  for (const char* piece : {" ", "\n", "1", ".", "a b", "\xFF", "a\xFF", "<|endoftext|"}) {
    std::string text;
    while (text.size() < kLong) text += piece;
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

}  // namespace gpt2_tokenizer_test
}  // namespace tessera
