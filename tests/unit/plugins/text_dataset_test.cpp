#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "tessera/data.hpp"
#include "tessera/permutation.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace text_dataset_test {

using ::testing::HasSubstr;

/// Ids are pairs of bytes: nothing like bytes, and an odd byte at a file's end shows.
class PairTokenizer final : public Tokenizer {
 public:
  i64 do_vocabulary() const override { return 65536; }
  std::string do_fingerprint() const override { return "pairs"; }
  std::vector<i32> do_encode(std::string_view text) const override {
    std::vector<i32> ids;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
      ids.push_back(256 * static_cast<u8>(text[i]) + static_cast<u8>(text[i + 1]));
    }
    return ids;
  }
  std::string do_decode(const std::vector<i32>&) const override { return ""; }
};

/// Bytes, but "<e>" is 256 where special texts are parsed.
class MarkedTokenizer final : public Tokenizer {
 public:
  i64 do_vocabulary() const override { return 257; }
  std::string do_fingerprint() const override { return "marked"; }
  std::vector<i32> do_encode(std::string_view text) const override {
    return {text.begin(), text.end()};
  }
  std::vector<i32> do_encode_parsed(std::string_view text) const override {
    std::vector<i32> ids;
    while (!text.empty()) {
      const bool mark = text.starts_with("<e>");
      ids.push_back(mark ? 256 : text[0]);
      text.remove_prefix(mark ? 3 : 1);
    }
    return ids;
  }
  std::string do_decode(const std::vector<i32>&) const override { return ""; }
  bool do_has_special_texts() const override { return true; }
};

struct Sample {
  std::vector<i64> tokens, targets;
  std::vector<u8> mask;
  bool operator==(const Sample&) const = default;
};

Sample read(const Dataset& data, SampleSet set, i64 ordinal, i64 length) {
  const auto n = static_cast<std::size_t>(length);
  Sample sample{std::vector<i64>(n, -1), std::vector<i64>(n, -1), std::vector<u8>(n, 7)};
  data.read(set, ordinal, {{sample.tokens.data(), sample.targets.data(), sample.mask.data()}});
  return sample;
}

std::shared_ptr<Dataset> open(const std::string& keys,
                              i64 length,
                              u64 seed = 1,
                              std::shared_ptr<const Tokenizer> tokenizer = nullptr,
                              const std::string& keep_in = "") {
  DatasetArguments arguments;
  arguments.sequence_length = length;
  arguments.seed = seed;
  arguments.keep_in = keep_in;
  TokenizerArguments none;
  arguments.tokenizer =
      tokenizer != nullptr ? std::move(tokenizer) : make_plugin<Tokenizer>("byte", "", none);
  return make_plugin<Dataset>("text", keys, arguments);
}

/// Every position has its own value as far as one byte can tell: byte i = i mod 251.
std::string counting_text(int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(i % 251);
  return text;
}

std::string one(const std::string& path) { return "path = \"" + path + "\"\n"; }

TEST(ByteTokenizer, RoundTripsEveryByte) {
  TokenizerArguments none;
  const auto tokenizer = make_plugin<Tokenizer>("byte", "", none);
  EXPECT_EQ(tokenizer->vocabulary(), 256);
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  std::vector<i32> expected(256);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(tokenizer->encode(all), expected);
  EXPECT_EQ(tokenizer->decode(expected), all);
  EXPECT_THAT(text_of<Error>([&] { tokenizer->decode({256}); }), HasSubstr("not 256"));
}

TEST(Permutation, IsABijectionOfAnySize) {
  for (const i64 n : {1, 2, 3, 4, 5, 7, 16, 17, 100, 1000, 4097}) {
    std::set<i64> seen;
    const Permutation permute(n, 99, 3);
    for (i64 i = 0; i < n; ++i) seen.insert(permute(i));
    EXPECT_EQ(static_cast<i64>(seen.size()), n);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), n - 1);
  }
}

TEST(Permutation, LeavesNoOrderBehind) {
  // For a random permutation of n: about one fixed point, and neighbours n/3 apart on average.
  constexpr i64 n = 20000;
  const Permutation permute(n, 5, 0);
  i64 fixed = 0;
  double distance = 0;
  for (i64 i = 0; i < n; ++i) {
    fixed += permute(i) == i ? 1 : 0;
    if (i > 0) distance += std::abs(static_cast<double>(permute(i) - permute(i - 1)));
  }
  EXPECT_LT(fixed, 8);
  EXPECT_NEAR(distance / static_cast<double>(n - 1), n / 3.0, n * 0.02);
}

TEST(TextDataset, DeclaresItsFields) {
  const TestFolder folder;
  const auto data = open(one(folder.write("a.txt", counting_text(100))) + "validation = 0", 10);
  const auto fields = data->fields();
  ASSERT_EQ(fields.size(), 3U);
  EXPECT_EQ(fields[0].name, "tokens");
  EXPECT_EQ(fields[1].name, "targets");
  EXPECT_EQ(fields[2].name, "loss_mask");
  EXPECT_EQ(fields[2].dtype, DType::u8);
  EXPECT_EQ(fields[2].loss, "lm");
}

// Counts how often it is asked; 256 ends a document.
class CountingTokenizer final : public Tokenizer {
 public:
  mutable int asked = 0;

 private:
  i64 do_vocabulary() const override { return 257; }
  std::string do_fingerprint() const override { return "counting"; }
  std::vector<i32> do_encode(std::string_view text) const override {
    ++asked;
    return {text.begin(), text.end()};
  }
  std::string do_decode(const std::vector<i32>&) const override { return ""; }
  SpecialIds do_special_ids() const override { return {.eod = 256}; }
};

TEST(TextDataset, TokensAreMadeOnceAndKept) {
  const TestFolder folder;
  const std::string text = folder.write("a.txt", "abcdefghijklmnopqrst"), kept = folder.at("kept");
  const auto tokenizer = std::make_shared<CountingTokenizer>();
  const auto made = [&](const std::string& keys = "") {
    return open(one(text) + "validation = 0.3\n" + keys, 2, 1, tokenizer, kept);
  };
  const auto first = made();
  const int asked = tokenizer->asked;
  EXPECT_GT(asked, 0);
  const auto again = made();
  EXPECT_EQ(tokenizer->asked, asked) << "the ids were found in the folder";
  const auto plain = open(one(text) + "validation = 0.3", 2, 1, tokenizer);
  for (const SampleSet set : {SampleSet::train, SampleSet::validation}) {
    for (i64 i = 0; i < first->size(set); ++i) {
      EXPECT_EQ(read(*again, set, i, 2), read(*first, set, i, 2));
      EXPECT_EQ(read(*plain, set, i, 2), read(*first, set, i, 2));
    }
  }
  EXPECT_EQ(again->fingerprint(), plain->fingerprint());
  // Another text, other choices: other ids. A file that is cut short is made again.
  const int before = tokenizer->asked;
  EXPECT_NE(made("eod = true")->fingerprint(), first->fingerprint());
  EXPECT_GT(tokenizer->asked, before);
  for (const auto& entry : std::filesystem::directory_iterator(kept)) {
    if (entry.path().extension() == ".ids") std::filesystem::resize_file(entry.path(), 9);
  }
  const int cut = tokenizer->asked;
  EXPECT_EQ(made()->fingerprint(), first->fingerprint());
  EXPECT_GT(tokenizer->asked, cut);
}

TEST(TextDataset, ATokenEndsEachFileWhereThatIsAskedFor) {
  const TestFolder folder;
  folder.write("p-2.txt", "cd");
  folder.write("p-1.txt", "ab");
  folder.write("q.txt", "x");
  const std::string keys = one(folder.at("p-*.txt")) + "validation = 0\neod = true";
  const auto data = open(keys, 5, 1, std::make_shared<CountingTokenizer>());
  EXPECT_EQ(read(*data, SampleSet::train, 0, 5).tokens,
            (std::vector<i64>{'a', 'b', 256, 'c', 'd'}));
  EXPECT_EQ(read(*data, SampleSet::train, 0, 5).targets.back(), 256);
  EXPECT_THAT(text_of<ConfigError>([&] { open(keys, 5); }),
              HasSubstr("data.eod = true, and tokens are bytes"));
  EXPECT_THAT(text_of<ConfigError>([&] { open(keys, 5, 1, std::make_shared<MarkedTokenizer>()); }),
              HasSubstr("data.eod = true, and the tokenizer has no token that ends a document"));
  EXPECT_THAT(text_of<ConfigError>([&] { open(one(folder.at("r-*.txt")), 5); }),
              HasSubstr("data.path: no file matches"));
}

TEST(TextDataset, SpecialTokensInAFileAreTextUnlessTheyAreParsed) {
  const TestFolder folder;
  const std::string keys = one(folder.write("a.txt", "ab<e>cd")) + "validation = 0\n";
  const auto marked = std::make_shared<MarkedTokenizer>();
  const auto text = open(keys, 6, 1, marked),
             parsed = open(keys + "parse_special = true", 4, 1, marked);
  using Ids = std::vector<i64>;
  EXPECT_EQ(read(*text, SampleSet::train, 0, 6).tokens, (Ids{'a', 'b', '<', 'e', '>', 'c'}));
  EXPECT_EQ(read(*parsed, SampleSet::train, 0, 4).tokens, (Ids{'a', 'b', 256, 'c'}));
  // A run that goes on with the other choice is told that its data differ.
  EXPECT_NE(text->fingerprint(), parsed->fingerprint());
  EXPECT_THAT(
      text_of<ConfigError>([&] { open(keys + "parse_special = true", 4); }),
      HasSubstr("data.parse_special = true, and the tokenizer has no special tokens (byte)"));
}

TEST(TextDataset, AnEpochIsEveryWindowOnceInAnotherOrderEachTime) {
  const TestFolder folder;
  constexpr i64 kLength = 7;
  const std::string text = counting_text(180);  // all windows differ
  const auto data = open(one(folder.write("a.txt", text)) + "validation = 0", kLength);
  const i64 windows = (180 - 1) / kLength;
  ASSERT_EQ(data->size(SampleSet::train), windows);
  std::vector<std::vector<i64>> order(2);
  for (const int epoch : {0, 1}) {
    for (i64 i = 0; i < windows; ++i) {
      const Sample sample = read(*data, SampleSet::train, epoch * windows + i, kLength);
      const i64 begin = sample.tokens[0];
      for (i64 j = 0; j < kLength; ++j) {
        const auto at = static_cast<std::size_t>(j);
        EXPECT_EQ(sample.tokens[at], begin + j);
        EXPECT_EQ(sample.targets[at], begin + j + 1);
        EXPECT_EQ(sample.mask[at], 1);
      }
      EXPECT_EQ(begin % kLength, 0);
      EXPECT_LT(begin + kLength, 180);
      order[static_cast<std::size_t>(epoch)].push_back(begin);
    }
  }
  EXPECT_NE(order[0], order[1]);
  for (auto& begins : order) {
    EXPECT_FALSE(std::is_sorted(begins.begin(), begins.end()));
    std::sort(begins.begin(), begins.end());
    for (i64 i = 0; i < windows; ++i) EXPECT_EQ(begins[static_cast<std::size_t>(i)], i * kLength);
  }
}

/// All of a set, in order: the text of which windows of one token are cut.
std::string whole(const Dataset& data, SampleSet set) {
  std::string text;
  const i64 size = data.size(set);
  for (i64 i = 0; i < size; ++i) {
    const Sample sample = read(data, set, i, 1);
    text += static_cast<char>(sample.tokens[0]);
    if (i + 1 == size) text += static_cast<char>(sample.targets[0]);
  }
  return text;
}

std::string share(const std::string& path, const char* validation) {
  return one(path) + "validation = " + validation;
}

TEST(TextDataset, WholeFilesThatTheSeedChoosesValidate) {
  const TestFolder folder;
  std::string letters;
  for (char c = 'A'; c < 'A' + 40; ++c) {
    letters += c;
    folder.write(std::string("d/") + c + ".txt", std::string(50, c) + "\n\n");
  }
  std::set<std::string> choices;
  for (const u64 seed : {1, 2, 3, 4}) {
    const auto data = open(share(folder.at("d"), "0.1"), 1, seed);
    const std::string text = whole(*data, SampleSet::validation);
    EXPECT_EQ(text.size(), 4 * 52U);
    std::string in_order = text;
    std::erase(in_order, '\n');
    EXPECT_TRUE(std::ranges::is_sorted(in_order)) << text;
    std::set<char> held(in_order.begin(), in_order.end());
    EXPECT_EQ(held.size(), 4U) << text;
    i64 trained = 0;
    std::set<char> seen;
    for (i64 i = 0; i < data->size(SampleSet::train); ++i) {
      const auto token = static_cast<char>(read(*data, SampleSet::train, i, 1).tokens[0]);
      trained += held.contains(token) ? 1 : 0;
      seen.insert(token);
    }
    EXPECT_EQ(trained, 0);
    EXPECT_EQ(seen.size(), 36 + 1U);
    const SetContent training = data->content(SampleSet::train);
    EXPECT_EQ(training.documents, 36);
    EXPECT_EQ(training.tokens, 36 * 52);
    EXPECT_EQ(training.unit, "files");
    EXPECT_EQ(data->content(SampleSet::validation).documents, 4);
    choices.insert(std::string(held.begin(), held.end()));
    EXPECT_EQ(text, whole(*open(share(folder.at("d"), "0.1"), 1, seed), SampleSet::validation));
  }
  EXPECT_EQ(choices.size(), 4U) << "another seed holds back others";
  EXPECT_FALSE(choices.contains(letters.substr(36))) << "the tail of the names";
}

TEST(TextDataset, AFileOfMoreThanTheShareIsCutAtItsBlankLines) {
  const TestFolder folder;
  std::vector<std::string> paragraphs;
  std::string text;
  for (int i = 0; i < 200; ++i) {
    const char* blank = i % 3 == 0 ? "\n" : i % 3 == 1 ? " \t\n" : "\r\n\n";
    paragraphs.push_back(fmt::format("paragraph {:03}\nits second line\n{}", i, blank));
    text += paragraphs.back();
  }
  const auto data = open(share(folder.write("a.txt", text), "0.1"), 1);
  const std::string held = whole(*data, SampleSet::validation);
  i64 found = 0;
  std::string joined;
  for (std::size_t i = 0; i < paragraphs.size(); ++i) {
    if (held.find(paragraphs[i]) == std::string::npos) continue;
    ++found;
    joined += paragraphs[i];
  }
  EXPECT_EQ(held, joined) << "whole paragraphs in their order";
  EXPECT_NEAR(static_cast<double>(held.size()), 0.1 * static_cast<double>(text.size()), 17);
  EXPECT_EQ(data->content(SampleSet::validation).documents, found);
  EXPECT_EQ(data->content(SampleSet::train).documents, 200 - found);
  EXPECT_EQ(data->content(SampleSet::train).unit, "paragraphs");
  EXPECT_NE(held, text.substr(text.size() - held.size()));
}

TEST(TextDataset, WithoutBlankLinesLinesAreDocuments) {
  const TestFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += fmt::format("line {:04}\n", i);
  const auto data = open(share(folder.write("a.txt", text), "0.1"), 1);
  const std::string held = whole(*data, SampleSet::validation);
  EXPECT_EQ(held.size(), 100U);
  for (std::size_t at = 0; at < held.size(); at += 10) EXPECT_EQ(held.substr(at, 5), "line ");
  EXPECT_EQ(data->content(SampleSet::validation).documents, 10);
  EXPECT_EQ(data->content(SampleSet::validation).unit, "lines");
}

TEST(TextDataset, OneLineIsCutBetweenCharacters) {
  const TestFolder folder;
  std::string text;
  for (int i = 0; i < 333; ++i) text += "ä€";
  for (const u64 seed : {1, 2, 3, 4, 5}) {
    const auto data = open(share(folder.write("a.txt", text), "0.03"), 1, seed);
    const std::string held = whole(*data, SampleSet::validation);
    EXPECT_TRUE(held.starts_with("ä") || held.starts_with("€")) << held;
    EXPECT_NEAR(static_cast<double>(held.size()), 0.03 * static_cast<double>(text.size()), 26);
    EXPECT_EQ(data->content(SampleSet::train).unit, "parts");
    EXPECT_EQ(data->content(SampleSet::train).tokens + data->content(SampleSet::validation).tokens,
              static_cast<i64>(text.size()));
  }
}

// Small files stay whole beside a large one that is cut.
TEST(TextDataset, DocumentsMayBeOfSeveralKinds) {
  const TestFolder folder;
  std::string large;
  for (int i = 0; i < 100; ++i) large += "a paragraph\n\n";
  folder.write("d/1.txt", large);
  folder.write("d/2.txt", "small\n\nfile");
  const auto data = open(share(folder.at("d"), "0.1"), 1);
  EXPECT_EQ(data->content(SampleSet::train).unit, "documents");
  EXPECT_EQ(
      data->content(SampleSet::train).documents + data->content(SampleSet::validation).documents,
      101);
}

// Another tokenizer encodes each run of documents of a set by itself, and never across its edges.
TEST(TextDataset, EncodesWhatValidatesByItself) {
  const TestFolder folder;
  std::string text;
  for (int i = 0; i < 50; ++i) text += fmt::format("odd {:02}\n", i);  // 7 bytes
  const auto path = folder.write("a.txt", text);
  const auto bytes = open(share(path, "0.02"), 1);
  ASSERT_EQ(bytes->content(SampleSet::validation).documents, 1);
  const std::string held = whole(*bytes, SampleSet::validation);
  const auto data = open(share(path, "0.02"), 2, 1, std::make_shared<PairTokenizer>());
  ASSERT_EQ(data->size(SampleSet::validation), 1);
  const Sample sample = read(*data, SampleSet::validation, 0, 2);
  const auto pair = [&](std::size_t at) { return 256 * i64{held[at]} + held[at + 1]; };
  EXPECT_EQ(sample.tokens, (std::vector<i64>{pair(0), pair(2)}));
  EXPECT_EQ(sample.targets, (std::vector<i64>{pair(2), pair(4)}));
  const auto before = static_cast<i64>(text.find(held));
  EXPECT_EQ(data->content(SampleSet::train).tokens, before / 2 + (350 - 7 - before) / 2);
}

TEST(TextDataset, ValidationBeginsAgainAfterItsEnd) {
  const TestFolder folder;
  const auto data = open(share(folder.write("a.txt", counting_text(240)), "0.25"), 7);
  const i64 size = data->size(SampleSet::validation);
  ASSERT_GT(size, 3);
  for (i64 i = 0; i < size; ++i) {
    EXPECT_EQ(read(*data, SampleSet::validation, i, 7),
              read(*data, SampleSet::validation, i + size, 7));
  }
}

TEST(TextDataset, TellsWhichFilesItReads) {
  const TestFolder folder;
  const std::string path = folder.write("a.txt", counting_text(100));
  for (const bool bytes : {true, false}) {
    const auto data = open(
        one(path) + "validation = 0", 4, 1, bytes ? nullptr : std::make_shared<PairTokenizer>());
    ASSERT_EQ(data->files().size(), 1U);
    EXPECT_EQ(data->files()[0]->path(), path);
    EXPECT_EQ(data->files()[0]->change(), "");
  }
}

TEST(TextDataset, DependsOnSeedAndOrdinalOnly) {
  const TestFolder folder;
  const std::string keys = one(folder.write("a.txt", counting_text(240)));
  const auto a = open(keys, 5, 1), b = open(keys, 5, 1), other = open(keys, 5, 2);
  bool differs = false;
  for (i64 i = 200; i >= 0; --i) (void)read(*b, SampleSet::train, i, 5);  // another history
  for (const i64 ordinal : {1000000, 3, 44, 46}) {
    EXPECT_EQ(read(*a, SampleSet::train, ordinal, 5), read(*b, SampleSet::train, ordinal, 5));
    differs |= read(*a, SampleSet::train, ordinal, 5) != read(*other, SampleSet::train, ordinal, 5);
  }
  EXPECT_TRUE(differs);
}

TEST(TextDataset, JoinsFilesInOrder) {
  const TestFolder folder;
  const std::string text = counting_text(90);
  folder.write("d/b.txt", text.substr(33, 3));
  folder.write("d/a.txt", text.substr(30, 3));
  folder.write("d/c.txt", "");
  folder.write("d/d.txt", text.substr(36));
  folder.write("d/notes.md", "not this");
  const std::string first = folder.write("z.txt", text.substr(0, 30));
  const auto data =
      open("path = [\"" + first + "\", \"" + folder.at("d") + "\"]\nvalidation = 0", 88);
  ASSERT_EQ(data->size(SampleSet::train), 1);
  const Sample sample = read(*data, SampleSet::train, 0, 88);
  for (i64 i = 0; i < 88; ++i) EXPECT_EQ(sample.tokens[static_cast<std::size_t>(i)], i);
}

TEST(TextDataset, EncodesEachFileWithAnyOtherTokenizer) {
  const TestFolder folder;
  const std::string a = folder.write("a.txt", "abcde"), b = folder.write("b.txt", "fghi");
  const auto data = open("path = [\"" + a + "\", \"" + b + "\"]\nvalidation = 0",
                         3,
                         1,
                         std::make_shared<PairTokenizer>());
  ASSERT_EQ(data->size(SampleSet::train), 1);
  const Sample sample = read(*data, SampleSet::train, 0, 3);
  const auto pair = [](char x, char y) { return 256 * i64{x} + y; };
  EXPECT_EQ(sample.tokens, (std::vector<i64>{pair('a', 'b'), pair('c', 'd'), pair('f', 'g')}));
  EXPECT_EQ(sample.targets, (std::vector<i64>{pair('c', 'd'), pair('f', 'g'), pair('h', 'i')}));
}

TEST(TextDataset, FingerprintFollowsContentAndOrder) {
  const TestFolder folder;
  const std::string a = folder.write("a.txt", counting_text(100));
  const std::string b = folder.write("b.txt", counting_text(101));
  const auto print = [](const std::string& keys, u64 seed = 1) {
    return open(keys + (keys.find("validation") == std::string::npos ? "validation = 0.3" : ""),
                4,
                seed)
        ->fingerprint();
  };
  const std::string before = print(one(a));
  EXPECT_EQ(before, print(one(folder.write("elsewhere/x.txt", counting_text(100)))));
  EXPECT_NE(before, print(one(b)));
  EXPECT_NE(before, print(one(a) + "validation = 0.4"));
  EXPECT_NE(before, print(one(a), 2)) << "other parts of the text validate";
  EXPECT_THAT(before, HasSubstr(": 100 tokens, vocabulary 256, validation of "));
  EXPECT_THAT(print(one(a) + "validation = 0"),
              ::testing::EndsWith(": 100 tokens, vocabulary 256, validation from 100"));
  EXPECT_NE(print("path = [\"" + a + "\", \"" + b + "\"]\n"),
            print("path = [\"" + b + "\", \"" + a + "\"]\n"));
  for (const int at : {0, 31, 32, 63, 64, 99}) {
    std::string changed = counting_text(100);
    changed[static_cast<std::size_t>(at)] ^= 1;
    EXPECT_NE(before, print(one(folder.write("c.txt", changed)))) << at;
  }
  // The same bytes cut elsewhere.
  folder.write("p/1.txt", "aaaabbbbb");
  folder.write("p/2.txt", "cc");
  folder.write("q/1.txt", "aaaabbbb");
  folder.write("q/2.txt", "bcc");
  EXPECT_NE(print(one(folder.at("p")) + "validation = 0"),
            print(one(folder.at("q")) + "validation = 0"));
}

std::string problem(const std::string& keys, i64 length = 10) {
  return text_of<ConfigError>([&] { open(keys, length); });
}

TEST(TextDataset, SaysWhatIsMissing) {
  const TestFolder folder;
  EXPECT_THAT(problem(""), HasSubstr("path"));
  EXPECT_THAT(problem(one(folder.at("absent.txt"))), HasSubstr("absent.txt\": No such file"));
  EXPECT_THAT(problem(one(folder.path())), HasSubstr("has no *.txt files"));
  ASSERT_EQ(::mkfifo(folder.at("pipe").c_str(), 0600), 0);
  EXPECT_THAT(problem(one(folder.at("pipe"))), HasSubstr("pipe\" is no regular file"));
  if (::geteuid() != 0) {
    const std::string locked = folder.write("locked.txt", counting_text(100));
    ::chmod(locked.c_str(), 0);
    EXPECT_THAT(problem(one(locked)), HasSubstr("Permission denied"));
  }
}

TEST(TextDataset, SaysHowMuchTextItNeeds) {
  const TestFolder folder;
  const std::string ten = one(folder.write("ten.txt", counting_text(10)));
  EXPECT_THAT(problem(ten + "validation = 0", 10),
              HasSubstr("training part has 10 of the text's 10 tokens; one sample of sequence "
                        "length 10 needs 11"));
  EXPECT_EQ(open(ten + "validation = 0", 9)->size(SampleSet::train), 1);
  EXPECT_THAT(problem(ten + "validation = 0.2", 4),
              HasSubstr("validation part has 2 of the text's 10 tokens; one sample of sequence "
                        "length 4 needs 5"));
  EXPECT_THAT(problem(one(folder.write("empty.txt", ""))), HasSubstr("has 0 of"));
  const auto data = open(ten + "validation = 0", 4);
  EXPECT_EQ(data->size(SampleSet::validation), 0);
  EXPECT_THAT(text_of<Error>([&] { read(*data, SampleSet::validation, 0, 4); }),
              HasSubstr("set of 0"));
}

}  // namespace text_dataset_test
}  // namespace tessera
