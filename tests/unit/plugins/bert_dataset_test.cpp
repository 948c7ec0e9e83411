// The dataset `bert`. The numbers of its order "megatron" are those of megatron-core;
// tests/oracle/megatron_bert.py compares many more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "tests/unit/plugins/token_files.hpp"

namespace tessera {
namespace bert_dataset_test {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<i64>;

constexpr auto kTrain = SampleSet::train;
constexpr auto kValidation = SampleSet::validation;
constexpr i64 kCls = 2, kSep = 3, kMask = 4;

// Every third token from 6 on continues a word, unless each is one.
class Pieces final : public Tokenizer {
 public:
  explicit Pieces(i64 vocabulary = 40, bool words = false, SpecialIds special = kRoles)
      : vocabulary_(vocabulary), words_(words), special_(std::move(special)) {}
  static inline const SpecialIds kRoles = {.pad = 0, .cls = kCls, .sep = kSep, .mask = kMask};
  static bool continues(i64 id) { return id >= 5 && id % 3 == 0; }

 private:
  i64 do_vocabulary() const override { return vocabulary_; }
  std::string do_fingerprint() const override { return "pieces"; }
  std::vector<i32> do_encode(std::string_view) const override { return {}; }
  std::string do_decode(const std::vector<i32>&) const override { return ""; }
  bool do_continues_word(i32 id) const override { return !words_ && continues(id); }
  SpecialIds do_special_ids() const override { return special_; }
  i64 vocabulary_;
  bool words_;
  SpecialIds special_;
};

struct Open {
  i64 length = 16;
  u64 seed = 7;
  i64 samples = 0;
  i64 rows = 0;
  std::string keep_in = "";
  std::shared_ptr<const Tokenizer> tokenizer = std::make_shared<Pieces>();
};

std::shared_ptr<Dataset> open(const std::string& keys, const Open& with = {}) {
  DatasetArguments arguments{.sequence_length = with.length,
                             .seed = with.seed,
                             .tokenizer = with.tokenizer,
                             .training_samples = with.samples,
                             .vocabulary = with.rows,
                             .keep_in = with.keep_in};
  return make_plugin<Dataset>("bert", keys, arguments);
}

struct BertSample {
  Ids tokens, segments, targets;
  std::vector<u8> mask;
  std::vector<i32> last;
  i64 label = 99;
  u8 label_mask = 99;
  bool operator==(const BertSample&) const = default;

  i64 size() const { return last[0] + 1; }
  i64 masked() const { return std::accumulate(mask.begin(), mask.end(), i64{0}); }
  // A half, as it was before it was masked.
  Ids half(i64 segment) const {
    Ids ids;
    for (std::size_t i = 1; i < static_cast<std::size_t>(size()); ++i) {
      const i64 id = mask[i] != 0 ? targets[i] : tokens[i];
      if (segments[i] == segment && id != kSep) ids.push_back(id);
    }
    return ids;
  }
};

BertSample read(const Dataset& data, i64 ordinal, i64 length, SampleSet set = kTrain) {
  const auto n = static_cast<std::size_t>(length);
  BertSample out{Ids(n, 99), Ids(n, 99), Ids(n, 99), std::vector<u8>(n, 99), {}, 99, 99};
  out.last.assign(n, 99);
  data.read(set,
            ordinal,
            {{out.tokens.data(),
              out.segments.data(),
              out.targets.data(),
              out.mask.data(),
              out.last.data(),
              &out.label,
              &out.label_mask}});
  return out;
}

// Documents of sentences of these lengths; ids count on from `first` and begin again at `end`.
void write_sentences(const std::string& prefix,
                     const std::vector<std::vector<int>>& documents,
                     i32 first = 5,
                     i32 end = 40) {
  TokenFileWriter writer(prefix, TokenType::u16);
  i32 id = first;
  for (const std::vector<int>& lengths : documents) {
    for (const int length : lengths) {
      std::vector<i32> ids;
      for (int i = 0; i < length; ++i, id = id + 1 == end ? first : id + 1) ids.push_back(id);
      writer.add(ids);
    }
    writer.end_document();
  }
  writer.finish("");
}

TEST(BertDataset, HasTheSamplesOfMegatron) {
  const TestFolder folder;
  {
    TokenFileWriter writer(folder.at("a"), TokenType::i32);
    const auto add = [&](i32 first, i32 end) {
      std::vector<i32> ids(static_cast<std::size_t>(end - first));
      std::iota(ids.begin(), ids.end(), first);
      writer.add(ids);
    };
    add(5, 8), add(8, 12), writer.end_document();
    add(12, 17), writer.end_document();
    add(17, 19), add(19, 25), add(25, 28), add(28, 30), writer.end_document();
    add(5, 14), add(14, 22), writer.end_document();
    writer.finish("");
  }
  const auto data = open(path_key(folder.at("a")) +
                             "split = \"1,0,0\"\norder = \"megatron\"\nshort_sequences = 0.5\n"
                             "mask_probability = 0.3\nngrams = 2\n",
                         {.length = 14, .samples = 8});
  ASSERT_EQ(data->size(kTrain), 10);  // two epochs
  const BertSample first = read(*data, 0, 14), third = read(*data, 3, 14),
                   fifth = read(*data, 4, 14);
  EXPECT_THAT(first.tokens, ElementsAre(2, 8, 9, 10, 11, 3, 4, 4, 4, 3, 0, 0, 0, 0));
  EXPECT_THAT(first.segments, ElementsAre(0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0));
  EXPECT_THAT(first.targets, ElementsAre(0, 0, 0, 0, 0, 0, 5, 6, 7, 0, 0, 0, 0, 0));
  EXPECT_THAT(first.mask, ElementsAre(0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(first.last, ElementsAre(9, 9, 9, 9, 9, 9, 9, 9, 9, 9, -1, -1, -1, -1));
  EXPECT_EQ(first.label, 1);
  EXPECT_EQ(first.label_mask, 1);
  EXPECT_THAT(third.tokens, ElementsAre(2, 17, 18, 3, 21, 4, 3, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(third.label, 0);
  EXPECT_THAT(fifth.tokens, ElementsAre(2, 16, 17, 18, 0, 20, 3, 4, 10, 11, 12, 13, 3, 0));
  EXPECT_THAT(fifth.targets, ElementsAre(0, 0, 0, 0, 19, 20, 0, 9, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(data->origin(kTrain, 3), "sentences 0 to 1 of document 2 of " + folder.at("a"));
}

TEST(BertDataset, FieldsAreThoseOfTheModel) {
  const TestFolder folder;
  write_sentences(folder.at("a"), {{3, 4}});
  const auto fields = open(path_key(folder.at("a")) + "split = \"1,0,0\"\n")->fields();
  ASSERT_EQ(fields.size(), 7U);
  std::string names;
  for (const FieldInfo& field : fields) names += field.name + " " + field.loss + ",";
  EXPECT_EQ(names, "tokens ,segments ,targets ,loss_mask lm,last ,label ,label_mask order,");
  EXPECT_EQ(fields[3].dtype, DType::u8);
  EXPECT_EQ(fields[4].dtype, DType::i32);
  EXPECT_EQ(fields[5].length, 1);
  EXPECT_EQ(fields[6].length, 1);
}

// The longer half loses tokens, of two that are equally long the second one.
TEST(BertDataset, TheLongerHalfIsCutFromBothEnds) {
  const TestFolder folder;
  write_sentences(folder.at("a"), {{10, 4}});
  const auto data =
      open(path_key(folder.at("a")) + "split = \"1,0,0\"\nshort_sequences = 0\n", {.length = 11});
  std::map<i64, int> begins;
  int swapped = 0;
  constexpr int kRounds = 1000;
  for (i64 i = 0; i < kRounds; ++i) {
    const BertSample sample = read(*data, i, 11);
    ASSERT_EQ(sample.size(), 11);
    const Ids window = sample.half(sample.label), whole = sample.half(1 - sample.label);
    ASSERT_THAT(whole, ElementsAre(15, 16, 17, 18));
    ASSERT_EQ(window.size(), 4U);
    ASSERT_EQ(window.back(), window.front() + 3);
    ++begins[window.front() - 5];
    swapped += static_cast<int>(sample.label);
  }
  EXPECT_NEAR(swapped, 0.5 * kRounds, 70);
  // Of six tokens that go, those at the front are binomial: 1, 6, 15, 20, 15, 6, 1 of 64.
  EXPECT_EQ(begins.size(), 7U);
  EXPECT_NEAR(begins[3], kRounds * 20 / 64.0, 70);
  EXPECT_NEAR(begins[1], kRounds * 6 / 64.0, 45);

  write_sentences(folder.at("b"), {{5, 5}});
  const auto odd =
      open(path_key(folder.at("b")) + "split = \"1,0,0\"\nshort_sequences = 0\n", {.length = 12});
  for (i64 i = 0; i < 20; ++i) {
    EXPECT_EQ(read(*odd, i, 12).half(0).size(), 5U);
    EXPECT_EQ(read(*odd, i, 12).half(1).size(), 4U);
  }
}

// 20 words of one token each, of 2 and of 3; at most 0.15 · 40 = 6 tokens, of 23 round(0.15 · 23)
// = 3.
TEST(BertDataset, MasksWholeWordsUpToTheShare) {
  const TestFolder folder;
  write_sentences(folder.at("a"), {{10, 10}});  // 5 to 24
  const auto data =
      open(path_key(folder.at("a")) + "split = \"1,0,0\"\nshort_sequences = 0\n", {.length = 43});
  i64 masks = 0, kept = 0, others = 0, all = 0;
  for (i64 i = 0; i < 3000; ++i) {
    const BertSample sample = read(*data, i, 43);
    ASSERT_EQ(sample.size(), 23);
    // Words have a token or two, (5 6) (7) (8 9) (10) …: two and one, or three, always make 3.
    ASSERT_EQ(sample.masked(), 3) << i;
    for (std::size_t k = 0; k < 23; ++k) {
      if (sample.mask[k] == 0) {
        ASSERT_EQ(sample.targets[k], 0);
        continue;
      }
      const i64 original = sample.targets[k], now = sample.tokens[k];
      ASSERT_GE(original, 5);
      // A piece is masked with the word before it, but for a half's first one.
      if (Pieces::continues(original) && sample.segments[k - 1] == sample.segments[k] && k > 1 &&
          sample.tokens[k - 1] != kSep) {
        ASSERT_EQ(sample.mask[k - 1], 1) << i;
      }
      masks += now == kMask ? 1 : 0;
      kept += now == original ? 1 : 0;
      others += now != kMask && now != original ? 1 : 0;
      ++all;
    }
  }
  // 80 % [MASK] and 10 % of any of 40 tokens, which is one of those two now and then.
  const auto share = [&](i64 count) {
    return static_cast<double>(count) / static_cast<double>(all);
  };
  EXPECT_NEAR(share(masks), 0.8 + 0.1 / 40, 0.015);
  EXPECT_NEAR(share(kept), 0.1 + 0.1 / 40, 0.011);
  EXPECT_NEAR(share(others), 0.1 - 0.2 / 40, 0.011);
}

// Two words of three tokens, and three may be masked: with the first word first, a run of two or
// more shrinks to that word. If it were passed over, the second would be masked in most samples.
TEST(BertDataset, ARunThatDoesNotFitShrinks) {
  const TestFolder folder;
  TokenFileWriter writer(folder.at("a"), TokenType::u16);
  writer.add(std::vector<i32>{5, 6, 9});
  writer.add(std::vector<i32>{7, 12, 15});
  writer.end_document();
  writer.finish("");
  const auto data = open(path_key(folder.at("a")) +
                             "split = \"1,0,0\"\nshort_sequences = 0\nmask_probability = 0.35\n",
                         {.length = 12});
  constexpr int kRounds = 2000;
  int first = 0;
  for (i64 i = 0; i < kRounds; ++i) {
    const BertSample sample = read(*data, i, 12);
    ASSERT_EQ(sample.masked(), 3) << "of 9 tokens round(3.15), and 0.35 · 9 = 3.15 at most";
    first += sample.mask[1];
  }
  EXPECT_NEAR(first, 0.5 * kRounds, 110);
}

// A word of three where two may be masked is passed over, and so is what is masked already.
TEST(BertDataset, WhatFitsInNoWayIsPassedOver) {
  const TestFolder folder;
  TokenFileWriter writer(folder.at("a"), TokenType::u16);
  writer.add(std::vector<i32>{5, 6, 9});
  writer.add(std::vector<i32>{7, 8});
  writer.end_document();
  writer.add(std::vector<i32>{5, 6, 9});
  writer.add(std::vector<i32>{7, 12, 15});
  writer.end_document();
  writer.finish("");
  const auto data = open(path_key(folder.at("a")) +
                             "split = \"1,0,0\"\nshort_sequences = 0\nmask_probability = 0.25\n",
                         {.length = 11});
  for (i64 i = 0; i < 200; ++i) {
    const BertSample sample = read(*data, i, 11);
    if (sample.size() == 8) {
      EXPECT_EQ(sample.masked(), 2);
      EXPECT_EQ(std::accumulate(sample.targets.begin(), sample.targets.end(), i64{0}), 7 + 8);
      EXPECT_EQ(sample.half(sample.label), (Ids{5, 6, 9}));
    } else {
      EXPECT_EQ(sample.masked(), 0);
    }
  }
}

TEST(BertDataset, AnEpochHasEachSampleOnceAndMasksOfItsOwn) {
  const TestFolder folder;
  std::vector<std::vector<int>> documents;
  for (int i = 0; i < 50; ++i) documents.push_back({3, 4, 5, 6, 7, 8, 9, 3});
  documents.push_back({7});
  documents.push_back({});
  documents.push_back({5, 513});
  write_sentences(folder.at("a"), documents);
  const std::string keys = path_key(folder.at("a")) + path_key(folder.at("a"), "validation_path");
  const auto data = open(keys, {.length = 23});
  const i64 size = data->size(kTrain);
  ASSERT_GT(size, 100);
  EXPECT_EQ(data->size(kValidation), size);
  EXPECT_EQ(data->size(SampleSet::test), 0);
  std::set<std::string> first, second, file;
  std::map<std::string, BertSample> seen;
  int same = 0;
  bool moved = false;
  for (i64 i = 0; i < size; ++i) {
    first.insert(data->origin(kTrain, i));
    second.insert(data->origin(kTrain, size + i));
    file.insert(data->origin(kValidation, i));
    moved = moved || data->origin(kTrain, i) != data->origin(kTrain, size + i);
    seen[data->origin(kTrain, i)] = read(*data, i, 23);
  }
  for (i64 i = size; i < 2 * size; ++i) {
    same += seen[data->origin(kTrain, i)] == read(*data, i, 23) ? 1 : 0;
  }
  EXPECT_EQ(static_cast<i64>(first.size()), size);
  EXPECT_TRUE(first == second && first == file && moved);
  EXPECT_LT(same, size / 10);
  // However many samples a run reads, and wherever arrays are kept.
  const TestFolder kept;
  const auto other = open(keys, {.length = 23, .samples = 1'000'000, .keep_in = kept.at("data")});
  const auto again = open(keys, {.length = 23, .keep_in = kept.at("data")});
  const auto seeded = open(keys, {.length = 23, .seed = 8});
  int equal = 0;
  for (i64 i = 0; i < 50; ++i) {
    EXPECT_EQ(read(*other, i, 23), read(*data, i, 23));
    EXPECT_EQ(read(*again, i, 23), read(*data, i, 23));
    equal += read(*seeded, i, 23) == read(*data, i, 23) ? 1 : 0;
  }
  EXPECT_LT(equal, 5);
  EXPECT_EQ(other->fingerprint(), data->fingerprint());
  EXPECT_NE(open(keys + "ngrams = 2\n", {.length = 23})->fingerprint(), data->fingerprint());
  EXPECT_FALSE(std::filesystem::is_empty(kept.at("data")));
  EXPECT_EQ(data->content(kTrain).documents, 53);
  EXPECT_EQ(
      data->content(kTrain).unit,
      "documents (left out, of fewer than two sentences: 2) (left out, with a sentence of more "
      "than 512 tokens: 1)");
}

// One in round(1 / share) is short.
TEST(BertDataset, SomeSamplesAreShort) {
  const TestFolder folder;
  write_sentences(folder.at("a"), std::vector<std::vector<int>>(2000, {30, 30}), 5, 5000);
  const auto lengths = [&](const std::string& share) {
    const auto data =
        open(path_key(folder.at("a")) + "split = \"1,0,0\"\nshort_sequences = " + share,
             {.length = 43, .tokenizer = std::make_shared<Pieces>(5000)});
    std::vector<i64> sizes;
    for (i64 i = 0; i < data->size(kTrain); ++i) sizes.push_back(read(*data, i, 43).size());
    EXPECT_EQ(sizes.size(), 2000U);
    return sizes;
  };
  EXPECT_THAT(lengths("0"), Each(43));
  const std::vector<i64> tenth = lengths("0.1"), all = lengths("1");
  EXPECT_NEAR(std::ranges::count(tenth, 43), 1800, 50);
  EXPECT_EQ(*std::ranges::min_element(all), 5);
  EXPECT_EQ(*std::ranges::max_element(all), 43);
  EXPECT_NEAR(std::accumulate(all.begin(), all.end(), 0.0) / 2000, 24, 1);
}

TEST(BertDataset, BlendsByWeights) {
  const TestFolder folder;
  write_sentences(folder.at("a"), std::vector<std::vector<int>>(20, {3, 3}), 5, 20);
  write_sentences(folder.at("b"), std::vector<std::vector<int>>(20, {3, 3}), 20, 38);
  for (const char* order : {"tessera", "megatron"}) {
    const auto data = open("path = [\"3\", \"" + folder.at("a") + "\", \"1\", \"" + folder.at("b") +
                               "\"]\nsplit = \"1,0,0\"\norder = \"" + order + "\"\n",
                           {.samples = 200});
    int of_a = 0;
    for (i64 i = 0; i < 200; ++i) of_a += read(*data, i, 16).half(0)[0] < 20 ? 1 : 0;
    EXPECT_EQ(of_a, 150) << order;
  }
}

std::string refused(const std::string& keys, const Open& with = {}) {
  std::string error = text_of<ConfigError>([&] { open(keys, with); });
  error.resize(error.find('\n'));  // who says so is the host's
  return error;
}

// Megatron-Core's class has none there, so nothing could be its samples; for training or not.
TEST(BertDataset, MegatronsOrderOfSeveralFilesNeedsWeights) {
  const TestFolder folder;
  for (const char* name : {"a", "b"}) {
    write_sentences(folder.at(name), std::vector<std::vector<int>>(20, {3, 3}));
  }
  const std::string both = "[\"" + folder.at("a") + "\", \"" + folder.at("b") + "\"]\n";
  const auto why = [](const std::string& key) {
    return key +
           ": 2 files without weights, which Megatron-Core's BERT dataset does not read, so "
           "data.order = \"megatron\" has no samples for them: give a weight before each, or "
           "choose "
           "order = \"tessera\"";
  };
  for (const std::string& keys : {"path = " + both, "split = \"1,0,0\"\npath = " + both}) {
    EXPECT_EQ(refused(keys + "order = \"megatron\"\n", {.samples = 10}), why("data.path"));
    EXPECT_GT(open(keys)->size(kTrain), 0);
  }
  EXPECT_EQ(
      refused(path_key(folder.at("a")) + "validation_path = " + both + "order = \"megatron\"\n",
              {.samples = 10}),
      why("data.validation_path"));
}

// A sentence is enough, whatever its length, and nothing is told of halves.
TEST(BertDataset, WithoutPairsATextIsOne) {
  const TestFolder folder;
  const std::string keys = path_key(folder.at("a")) + "split = \"1,0,0\"\npairs = false\n";
  write_sentences(folder.at("a"), {{}, {4}, {0, 3, 3}, {600}}, 5, 1000);
  const Open with = {.length = 16, .tokenizer = std::make_shared<Pieces>(1000)};
  const auto data = open(keys + "short_sequences = 0\n", with);
  EXPECT_EQ(data->fields().size(), 5U);
  EXPECT_EQ(data->fields().back().name, "last");
  ASSERT_EQ(data->size(kTrain), 3);
  std::map<std::string, i64> sizes;
  for (i64 i = 0; i < 3; ++i) {
    std::vector<i64> tokens(16), segments(16), targets(16);
    std::vector<u8> mask(16);
    std::vector<i32> last(16);
    data->read(
        kTrain, i, {{tokens.data(), segments.data(), targets.data(), mask.data(), last.data()}});
    std::string origin = data->origin(kTrain, i);
    sizes[origin.substr(0, origin.find(" of /"))] = last[0] + 1;
    EXPECT_THAT(segments, Each(0));
    EXPECT_EQ(tokens[static_cast<std::size_t>(last[0])], kSep);
  }
  EXPECT_EQ(sizes,
            (std::map<std::string, i64>{{"sentences 0 to 0 of document 1", 6},
                                        {"sentences 0 to 2 of document 2", 8},
                                        {"sentences 0 to 0 of document 3", 15}}));
  EXPECT_NE(data->fingerprint(),
            open(path_key(folder.at("a")) + "split = \"1,0,0\"\n"
                                            "short_sequences = 0\n",
                 with)
                ->fingerprint());
  write_sentences(folder.at("a"), {{}, {}});
  EXPECT_THAT(text_of<ConfigError>([&] { open(keys); }),
              HasSubstr("data.path: \"" + folder.at("a") + "\" has no sentence\n"));
}

TEST(BertDataset, RefusesWhatHasNoPairs) {
  const TestFolder folder;
  const std::string path = folder.at("wiki"), keys = path_key(path);
  write_sentences(path, {{5}, {}, {700}});
  EXPECT_EQ(refused(keys),
            "data.path: \"" + path +
                "\" has one sentence a document; [data.stages] sentences makes more");
  write_sentences(path, {{5}, {513, 3}, {3, 3, 600}});
  EXPECT_EQ(refused(keys),
            "data.path: \"" + path +
                "\" has 2 documents of two sentences or more, and each has a sentence of more than "
                "512 tokens");
  write_sentences(path, {{5}, {5}, {5}, {3, 3}});
  EXPECT_EQ(refused(keys + "split = \"1,1\"\n"),
            "data.path: the training part of each file has no document of two sentences or more, "
            "none longer than 512 tokens; give another data.split");
  EXPECT_THAT(refused("path = [\"1\", \"" + path + "\"]\nsplit = \"1,1\"\n"),
              HasSubstr("the training part of \"" + path + "\" has no document"));
  // Nothing is left to validate with.
  EXPECT_EQ(open(keys + "split = \"1,0\"\n")->size(kValidation), 0);
}

TEST(BertDataset, RefusesWhatHasNoMeaning) {
  const TestFolder folder;
  write_sentences(folder.at("a"), {{3, 3}});
  const std::string keys = path_key(folder.at("a")) + "split = \"1,0,0\"\n";
  EXPECT_EQ(refused(keys, {.tokenizer = std::make_shared<NumberTokenizer>("numbers")}),
            "data.type = \"bert\": the tokenizer numbers has no token of role cls, sep, mask, pad; "
            "one with all of cls, sep, mask and pad was expected, as \"wordpiece\"");
  EXPECT_THAT(refused(keys,
                      {.tokenizer = std::make_shared<Pieces>(
                           40, false, SpecialIds{.pad = 0, .cls = 2, .sep = 3})}),
              HasSubstr("has no token of role mask; one"));
  EXPECT_EQ(refused(keys, {.length = 4}),
            "batch.sequence_length = 4: data.type = \"bert\" needs at least 5");
  EXPECT_EQ(
      refused(keys, {.rows = 39}),
      "data.type = \"bert\" draws any of the tokenizer's 40 tokens, and the model has 39 rows");
  EXPECT_EQ(refused(keys + "short_sequences = 1e-7\n"),
            "data.short_sequences = 1e-07: expected 0, or 1e-06 to 1");
  EXPECT_EQ(
      refused(keys + "order = \"megatron\"\n", {.seed = 2147483647}),
      "data.order = \"megatron\": run.seed is 2147483647, and seeds of its mapping are at most "
      "2147483646");
  EXPECT_EQ(open(keys, {.seed = u64{1} << 40})->size(kTrain), 1);
  for (const char* key : {"ngrams = 0\n",
                          "mask_probability = 0\n",
                          "mask_probability = 1\n",
                          "short_sequences = 1.5\n",
                          "order = \"other\"\n"}) {
    EXPECT_THROW(open(keys + key), ConfigError) << key;
  }
  const auto small = open(keys, {.tokenizer = std::make_shared<Pieces>(9)});
  EXPECT_THAT(text_of<Error>([&] { read(*small, 0, 16); }),
              HasSubstr("token 9 of document 0 is outside the tokenizer's vocabulary of 9"));
}

}  // namespace bert_dataset_test
}  // namespace tessera
