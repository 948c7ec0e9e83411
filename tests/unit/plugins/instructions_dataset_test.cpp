// The dataset `instructions`: which tokens a sample has, and which of them have a loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/unit/plugins/token_files.hpp"

namespace tessera {
namespace instructions_dataset_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr auto kTrain = SampleSet::train;
constexpr auto kValidation = SampleSet::validation;
constexpr i32 kEos = 256, kSpecial = 257;

// Bytes, a token that ends a text, and "<x>", which is one where it is parsed.
class Letters final : public Tokenizer {
 public:
  explicit Letters(bool ends = true) : ends_(ends) {}
  i64 do_vocabulary() const override { return 258; }
  std::string do_fingerprint() const override { return ends_ ? "letters" : "letters without end"; }
  std::vector<i32> do_encode(std::string_view text) const override {
    return {text.begin(), text.end()};
  }
  std::vector<i32> do_encode_parsed(std::string_view text) const override {
    std::vector<i32> ids;
    while (!text.empty()) {
      const bool special = text.starts_with("<x>");
      ids.push_back(special ? kSpecial : text[0]);
      text.remove_prefix(special ? 3 : 1);
    }
    return ids;
  }
  std::string do_decode(const std::vector<i32>& ids) const override {
    return {ids.begin(), ids.end()};
  }
  bool do_has_special_texts() const override { return ends_; }
  SpecialIds do_special_ids() const override {
    SpecialIds ids;
    if (ends_) ids.eos = {kEos, kSpecial};
    return ids;
  }

 private:
  bool ends_;
};

struct Opening {
  i64 length = 8;
  u64 seed = 1;
  bool ends = true;
  i64 vocabulary = 0;
  std::string keep_in = {};
};

std::shared_ptr<Dataset> open(const std::string& keys, const Opening& with = {}) {
  DatasetArguments arguments;
  arguments.sequence_length = with.length;
  arguments.seed = with.seed;
  arguments.tokenizer = std::make_shared<const Letters>(with.ends);
  arguments.vocabulary = with.vocabulary;
  arguments.keep_in = with.keep_in;
  return make_plugin<Dataset>("instructions", keys, arguments);
}

std::string line(const std::string& prompt, const std::string& answer) {
  return "{\"prompt\":\"" + prompt + "\",\"answer\":\"" + answer + "\"}\n";
}

class Instructions : public ::testing::Test {
 protected:
  std::string path(const std::string& lines, const std::string& name = "a.jsonl") const {
    return "path = [\"" + folder_.write(name, lines) + "\"]\n";
  }
  // Where validation shows the file in its order.
  std::string both(const std::string& lines) const {
    return path(lines) + "validation_" + path(lines, "v.jsonl");
  }
  std::string refused(const std::string& keys, const Opening& with = {}) const {
    return text_of<ConfigError>([&] { open(keys, with); });
  }
  TestFolder folder_;
};

std::vector<i64> ids(std::initializer_list<i64> values) { return values; }

TEST_F(Instructions, AnswersAloneHaveALoss) {
  const auto data = open(both(line("abc", "xy") + "\n" + line("q", "z")));
  ASSERT_EQ(data->size(kTrain), 2);
  ASSERT_EQ(data->size(kValidation), 2);
  EXPECT_EQ(data->size(SampleSet::test), 0);
  EXPECT_THAT(data->fields(), SizeIs(3));
  EXPECT_EQ(data->fields()[2].loss, "lm");
  const IndexedSample first = read_indexed(*data, kValidation, 0, 8);
  EXPECT_EQ(first.tokens, ids({'a', 'b', 'c', 'x', 'y', 0, 0, 0}));
  EXPECT_EQ(first.targets, ids({'b', 'c', 'x', 'y', kEos, 0, 0, 0}));
  EXPECT_THAT(first.mask, ElementsAre(0, 0, 1, 1, 1, 0, 0, 0));
  const IndexedSample second = read_indexed(*data, kValidation, 1, 8);
  EXPECT_EQ(second.tokens, ids({'q', 'z', 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(second.targets, ids({'z', kEos, 0, 0, 0, 0, 0, 0}));
  EXPECT_THAT(second.mask, ElementsAre(1, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(data->content(kTrain).documents, 2);
  EXPECT_EQ(data->content(kTrain).unit, "examples");
  EXPECT_EQ(data->content(kTrain).tokens, 9);
  EXPECT_EQ(data->origin(kValidation, 1), folder_.at("v.jsonl") + ":3");
  EXPECT_THAT(data->files(), SizeIs(2));
}

TEST_F(Instructions, WithoutAnEnd) {
  const std::string keys = both(line("abc", "xy"));
  for (const auto& data : {open(keys + "eos = false\n"), open(keys, {.ends = false})}) {
    const IndexedSample sample = read_indexed(*data, kValidation, 0, 8);
    EXPECT_EQ(sample.tokens, ids({'a', 'b', 'c', 'x', 0, 0, 0, 0}));
    EXPECT_EQ(sample.targets, ids({'b', 'c', 'x', 'y', 0, 0, 0, 0}));
    EXPECT_THAT(sample.mask, ElementsAre(0, 0, 1, 1, 0, 0, 0, 0));
  }
  EXPECT_THAT(refused(keys + "eos = true\n", {.ends = false}),
              HasSubstr("data.eos = true, and the tokenizer has no token that ends a text "
                        "(letters without end)"));
}

TEST_F(Instructions, PackedExamplesAreApart) {
  const std::string lines =
      line("ab", "c") + line("defg", "hi") + line("j", "k") + line("lmnopqr", "s");
  const auto data = open(both(lines) + "pack = \"examples\"\n");
  // Places: 3, 6, 2 and 8, of 8: the last one alone, the second with the third, the first alone.
  ASSERT_EQ(data->size(kValidation), 3);
  EXPECT_THAT(data->fields(), SizeIs(6));
  bool seen = false;
  for (i64 i = 0; i < 3; ++i) {
    const IndexedSample sample = read_indexed(*data, kValidation, i, 8);
    if (sample.tokens[0] != 'd') continue;
    seen = true;
    EXPECT_EQ(sample.tokens, ids({'d', 'e', 'f', 'g', 'h', 'i', 'j', 'k'}));
    EXPECT_EQ(sample.targets, ids({'e', 'f', 'g', 'h', 'i', kEos, 'k', kEos}));
    EXPECT_THAT(sample.mask, ElementsAre(0, 0, 0, 1, 1, 1, 1, 1));
    EXPECT_EQ(sample.positions, ids({0, 1, 2, 3, 4, 5, 0, 1}));
    EXPECT_THAT(sample.first, ElementsAre(0, 0, 0, 0, 0, 0, 6, 6));
    EXPECT_THAT(sample.last, ElementsAre(5, 5, 5, 5, 5, 5, 7, 7));
    EXPECT_EQ(data->origin(kValidation, i),
              folder_.at("v.jsonl") + ":2, " + folder_.at("v.jsonl") + ":3");
  }
  EXPECT_TRUE(seen);
}

// Every loss of a set, packed or not, in any epoch: each answer's tokens once.
std::multiset<std::pair<i64, i64>> losses(const Dataset& data, i64 epoch, i64 length) {
  std::multiset<std::pair<i64, i64>> all;
  for (i64 i = 0; i < data.size(kTrain); ++i) {
    const IndexedSample sample = read_indexed(data, kTrain, epoch * data.size(kTrain) + i, length);
    for (std::size_t at = 0; at < sample.mask.size(); ++at) {
      if (sample.mask[at] == 1) all.emplace(sample.tokens[at], sample.targets[at]);
    }
  }
  return all;
}

TEST_F(Instructions, AnEpochHasEachExampleOnce) {
  std::string lines;
  std::multiset<std::pair<i64, i64>> right;
  for (int i = 0; i < 60; ++i) {
    const std::string prompt(static_cast<std::size_t>(1 + i % 5), 'p');
    const std::string answer = {static_cast<char>('A' + i % 26), static_cast<char>('a' + i % 7)};
    lines += line(prompt, answer);
    right.insert({{'p', answer[0]}, {answer[0], answer[1]}, {answer[1], kEos}});
  }
  const std::string keys = path(lines) + "validation = 0\n";
  for (const std::string pack : {"none", "examples"}) {
    const std::string all = keys + "pack = \"" + pack + "\"\n";
    const auto data = open(all, {.length = 16}), other = open(all, {.length = 16, .seed = 2});
    EXPECT_EQ(losses(*data, 0, 16), right);
    EXPECT_EQ(losses(*data, 1, 16), right);
    const auto order = [](const Dataset& set, i64 from) {
      std::string text;
      for (i64 i = from; i < from + set.size(kTrain); ++i) text += set.origin(kTrain, i) + " ";
      return text;
    };
    EXPECT_NE(order(*data, 0), order(*data, data->size(kTrain)));
    EXPECT_NE(order(*data, 0), order(*other, 0));
    EXPECT_EQ(order(*data, 0), order(*open(all, {.length = 16}), 0));
    EXPECT_NE(data->fingerprint(), open(keys, {.length = 17})->fingerprint());
  }
}

TEST_F(Instructions, TheSeedHoldsSomeBack) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += line("p" + std::to_string(i), "a");
  const auto sets_of = [](const Dataset& data) {
    std::array<std::set<std::string>, 2> sets;
    for (const SampleSet set : {kTrain, kValidation}) {
      for (i64 i = 0; i < data.size(set); ++i) {
        sets[set == kTrain ? 0 : 1].insert(data.origin(set, i));
      }
    }
    return sets;
  };
  const auto data = open(path(lines) + "validation = 0.25\n");
  const auto [training, validation] = sets_of(*data);
  EXPECT_THAT(training, SizeIs(30));
  EXPECT_THAT(validation, SizeIs(10));
  EXPECT_TRUE(
      std::ranges::none_of(validation, [&](const auto& one) { return training.contains(one); }));
  const auto other = open(path(lines) + "validation = 0.25\n", {.seed = 2});
  EXPECT_NE(sets_of(*other)[1], validation);
  EXPECT_NE(other->fingerprint(), data->fingerprint());
  EXPECT_EQ(open(path(lines))->size(kValidation), 2) << "a twentieth";
  EXPECT_EQ(open(path(lines) + "validation = 0\n")->size(kTrain), 40);
  EXPECT_THAT(refused(path(line("p", "a"))), HasSubstr("of 1 examples it would be 1"));
  EXPECT_THAT(refused(both(lines) + "validation = 0.1\n"),
              HasSubstr("data.validation = 0.1 and data.validation_path: "));
}

TEST_F(Instructions, LongOnes) {
  // 9 tokens fit, 10 do not.
  const std::string lines = line("abcdef", "xy") + line("abcdefg", "xy");
  EXPECT_THAT(refused(both(lines)),
              AllOf(HasSubstr("data.path: " + folder_.at("a.jsonl") +
                              ":2: prompt and answer have "
                              "10 tokens, and a sample has room for 9; "),
                    HasSubstr("data.too_long = \"cut_prompt\" or \"drop\"")));
  const auto cut = open(both(lines) + "too_long = \"cut_prompt\"\n");
  const IndexedSample sample = read_indexed(*cut, kValidation, 1, 8);
  EXPECT_EQ(sample.tokens, ids({'b', 'c', 'd', 'e', 'f', 'g', 'x', 'y'}));
  EXPECT_EQ(sample.targets, ids({'c', 'd', 'e', 'f', 'g', 'x', 'y', kEos}));
  EXPECT_THAT(sample.mask, ElementsAre(0, 0, 0, 0, 0, 1, 1, 1));
  EXPECT_EQ(cut->content(kTrain).unit, "examples (prompts cut: 1)");
  const auto dropped = open(both(lines) + "too_long = \"drop\"\n");
  EXPECT_EQ(dropped->size(kTrain), 1);
  EXPECT_EQ(dropped->content(kTrain).unit, "examples (left out: 1)");
  EXPECT_NE(cut->fingerprint(), dropped->fingerprint());
  EXPECT_THAT(refused(both(line("a", "12345678")) + "too_long = \"cut_prompt\"\n"),
              HasSubstr("a.jsonl:1: the answer alone has 9 tokens, and a sample has room for 9"));
  EXPECT_THAT(refused(both(line("ab", "12345678")) + "too_long = \"drop\"\n"),
              HasSubstr("there is no example in it that is not too long: 1 are"));
}

TEST_F(Instructions, FieldsAndSpecialTexts) {
  const std::string keys = both("{\"q\":\"<x>a\",\"r\":\"b<x>\",\"prompt\":7}\n") +
                           "prompt_field = \"q\"\nanswer_field = \"r\"\n";
  const IndexedSample plain = read_indexed(*open(keys, {.length = 12}), kValidation, 0, 12);
  EXPECT_EQ(plain.tokens, ids({'<', 'x', '>', 'a', 'b', '<', 'x', '>', 0, 0, 0, 0}));
  const auto parsed = open(keys + "parse_special = true\n");
  const IndexedSample sample = read_indexed(*parsed, kValidation, 0, 8);
  EXPECT_EQ(sample.tokens, ids({kSpecial, 'a', 'b', kSpecial, 0, 0, 0, 0}));
  EXPECT_THAT(sample.mask, ElementsAre(0, 1, 1, 1, 0, 0, 0, 0));
  EXPECT_THAT(refused(keys + "parse_special = true\n", {.ends = false}),
              HasSubstr("data.parse_special = true, and the tokenizer has no special tokens"));
}

TEST_F(Instructions, BadInput) {
  const std::string good = line("a", "b"), place = folder_.at("a.jsonl");
  const auto second = [&](const std::string& bad) { return refused(both(good + bad)); };
  EXPECT_THAT(second("{\"answer\":\"b\"}\n"), HasSubstr(place + ":2: no field \"prompt\""));
  EXPECT_THAT(second("{\"prompt\":\"b\"}\n"), HasSubstr(place + ":2: no field \"answer\""));
  EXPECT_THAT(second("{\"prompt\":1,\"answer\":\"\"}\n"),
              HasSubstr(place + ":2: \"prompt\" is 1, which is no text"));
  EXPECT_THAT(second(line("", "b")), HasSubstr(place + ":2: \"prompt\" has no tokens"));
  EXPECT_THAT(second(line("b", "")), HasSubstr(place + ":2: \"answer\" has no tokens"));
  EXPECT_THAT(second("[1]\n"), HasSubstr(place + ":2 is damaged: it is a JSON array"));
  EXPECT_THAT(second("{\"prompt\":\"\xFF\"}\n"), HasSubstr(place + ":2 is damaged: "));
  EXPECT_THAT(second("{\"prompt\":\n"), HasSubstr(place + ":2 is damaged: "));
  EXPECT_THAT(refused(both("\n")), HasSubstr("data.path: there is no example in it"));
  EXPECT_THAT(refused("path = [\"/none.jsonl\"]\n"), HasSubstr("/none.jsonl"));
  EXPECT_THAT(text_of<Error>(
                  [&] { read_indexed(*open(both(good), {.vocabulary = 200}), kValidation, 0, 8); }),
              HasSubstr(folder_.at("v.jsonl") +
                        ":1: token 256 of the example is outside the model's vocabulary of 200"));
}

TEST_F(Instructions, AWarningTellsOfSpecialTextsThatStayText) {
  const auto told = [&](const std::string& lines, const std::string& more, const Opening& with) {
    const std::string keys = path(lines) + "validation = 0\n" + more;
    ::testing::internal::CaptureStderr();
    open(keys, with);
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string special = line("a", "b") + line("c", "d<x>") + line("<x>", "e");
  const std::string warning = told(special, "", {});
  EXPECT_THAT(warning,
              HasSubstr("data.parse_special = false: \"answer\" of " + folder_.at("a.jsonl") +
                        ":2 has the text of a special token, which stays text: \"d<x>\"; "));
  EXPECT_THAT(warning, Not(HasSubstr(":3 "))) << "the first alone";
  EXPECT_EQ(told(special, "parse_special = true\n", {}), "");
  EXPECT_EQ(told(special, "", {.ends = false}), "");
  EXPECT_EQ(told(line("a", "b"), "", {}), "");
  std::string plain;
  for (int i = 0; i < 999; ++i) plain += line("a", "b");
  EXPECT_THAT(told(plain + line("a", "<x>"), "", {}), HasSubstr("a.jsonl:1000 has"));
  EXPECT_EQ(told(plain + line("a", "b") + line("<x>", "b"), "", {}), "");
}

TEST_F(Instructions, FieldsThatBeginAlikeAreOthers) {
  const TestFolder kept;
  const std::string name(100, 'f'), one = name + "1", two = name + "2";
  const std::string keys =
      both("{\"" + one + "\":\"ab\",\"" + two + "\":\"cd\",\"answer\":\"x\"}\n");
  const auto with = [&](const std::string& field) {
    return open(keys + "prompt_field = \"" + field + "\"\n", {.keep_in = kept.at("")});
  };
  const auto first = with(one), second = with(two);
  EXPECT_EQ(read_indexed(*first, kTrain, 0, 8).tokens[0], 'a');
  EXPECT_EQ(read_indexed(*second, kTrain, 0, 8).tokens[0], 'c');
  EXPECT_NE(first->fingerprint(), second->fingerprint());
}

TEST_F(Instructions, AFileIsNamedOnce) {
  const std::string file = folder_.write("a.jsonl", line("a", "b") + line("c", "d"));
  const std::string other = folder_.write("b.jsonl", line("a", "b"));
  const std::string dots = folder_.at("./a.jsonl"), linked = folder_.at("c.jsonl");
  std::filesystem::create_symlink("a.jsonl", linked);
  const auto paths = [](const std::string& key, const std::string& a, const std::string& b) {
    return key + " = [\"" + a + "\", \"" + b + "\"]\n";
  };
  EXPECT_THAT(refused(paths("path", file, file)),
              HasSubstr("data.path: " + file + " is named twice"));
  EXPECT_THAT(refused(paths("path", file, dots)),
              HasSubstr("data.path: " + dots + " is named twice: " + file + " is the same file"));
  EXPECT_THAT(
      refused(paths("path", other, file) + "validation_path = [\"" + linked + "\"]\n"),
      HasSubstr("data.validation_path: " + linked + " is named twice: " + file + " is the same"));
  EXPECT_EQ(open(paths("path", file, other) + "validation = 0\n")->size(kTrain), 3);
}

TEST_F(Instructions, NeitherCompressedFilesNorPatterns) {
  const std::string why = " is compressed, and such files are not read here: unpack it";
  for (const std::string name : {"a.jsonl.gz", "a.jsonl.zst", "a.jsonl"}) {
    const bool zstd = name.ends_with("zst");
    const std::string packed = zstd ? "\x28\xB5\x2F\xFD more" : "\x1F\x8B\x08 more";
    EXPECT_THAT(refused(path(packed, name)), HasSubstr("data.path: " + folder_.at(name) + why));
  }
  EXPECT_THAT(refused("path = [\"" + folder_.at("*.jsonl") + "\"]\n"),
              HasSubstr("data.path: there is no file " + folder_.at("*.jsonl") +
                        "; patterns are not read here: name each file"));
  EXPECT_EQ(open(path(line("a", "b"), "*.jsonl") + "validation = 0\n")->size(kTrain), 1);
}

TEST_F(Instructions, TokensAreKeptForTheHost) {
  const TestFolder kept;
  const std::string keys = both(line("abc", "xy") + line("d", "e")) + "pack = \"examples\"\n";
  const auto files = [&] {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(kept.at(""))) {
      if (file.path().extension() != ".lock") names.push_back(file.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  };
  const auto data = open(keys, {.keep_in = kept.at("")});
  const std::vector<std::string> names = files();
  EXPECT_THAT(names, ElementsAre(HasSubstr("instructions-"), HasSubstr("packed-")));
  const IndexedSample sample = read_indexed(*data, kTrain, 0, 8);
  EXPECT_EQ(read_indexed(*open(keys, {.keep_in = kept.at("")}), kTrain, 0, 8), sample);
  EXPECT_EQ(files(), names);
  // What was damaged is made again.
  std::filesystem::remove(kept.at(names[0]));
  kept.write(names[0], "instruct");
  EXPECT_EQ(read_indexed(*open(keys, {.keep_in = kept.at("")}), kTrain, 0, 8), sample);
}

}  // namespace instructions_dataset_test
}  // namespace tessera
