// The order "tessera" of the dataset `indexed`, and what is told of documents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/unit/plugins/token_files.hpp"

namespace tessera {
namespace indexed_dataset_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kTrain = SampleSet::train;
constexpr auto kValidation = SampleSet::validation;

constexpr const char* kApart =
    "reset_positions = true\nreset_attention = true\nmask_eod_loss = true\n";

std::vector<i64> counting(i64 from, i64 count) {
  std::vector<i64> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), from);
  return ids;
}

// Validation has the file's order, so its windows can be named.
std::string both(const std::string& path) {
  return path_key(path) + path_key(path, "validation_path");
}

TEST(IndexedDataset, CutsTheTokensIntoWindows) {
  const TestFolder folder;
  write_documents(folder.at("a"), {3, 2, 5, 0, 4});
  const auto data = open_indexed(both(folder.at("a")), {.length = 4});
  EXPECT_EQ(data->size(kTrain), 3);
  EXPECT_EQ(data->size(kValidation), 3);
  EXPECT_EQ(data->size(SampleSet::test), 0);
  EXPECT_EQ(data->content(kTrain).documents, 5);
  EXPECT_EQ(data->content(kTrain).tokens, 14);
  EXPECT_EQ(data->fields().size(), 3u);
  for (i64 window = 0; window < 3; ++window) {
    const IndexedSample sample = read_indexed(*data, kValidation, window, 4);
    EXPECT_EQ(sample.tokens, counting(4 * window, 4));
    EXPECT_EQ(sample.targets, counting(4 * window + 1, 4));
    EXPECT_THAT(sample.mask, ElementsAre(1, 1, 1, 1));
  }
}

TEST(IndexedDataset, AnEpochHasEachWindowOnce) {
  const TestFolder folder;
  write_documents(folder.at("a"), {150, 151});
  const auto data = open_indexed(both(folder.at("a")), {.length = 3});
  const auto other = open_indexed(both(folder.at("a")), {.length = 3, .seed = 2});
  ASSERT_EQ(data->size(kTrain), 100);
  std::vector<std::vector<i64>> epochs(3);
  for (i64 i = 0; i < 300; ++i) {
    const i64 begin = read_indexed(*data, kTrain, i, 3).tokens[0];
    epochs[static_cast<std::size_t>(i / 100)].push_back(begin);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(
      epochs[0][0] + epochs[0][1],
      read_indexed(*other, kTrain, 0, 3).tokens[0] + read_indexed(*other, kTrain, 1, 3).tokens[0]);
  for (std::vector<i64>& begins : epochs) {
    std::ranges::sort(begins);
    for (i64 i = 0; i < 100; ++i) EXPECT_EQ(begins[static_cast<std::size_t>(i)], 3 * i);
  }
}

TEST(IndexedDataset, KeepsDocumentsApart) {
  const TestFolder folder;
  write_documents(folder.at("a"), {3, 2, 5, 0, 4});
  const auto data = open_indexed(both(folder.at("a")) + kApart, {.length = 6});
  const std::vector<FieldInfo> fields = data->fields();
  ASSERT_EQ(fields.size(), 6u);
  EXPECT_EQ(fields[2].loss, "lm");
  EXPECT_EQ(fields[3].dtype, DType::i64);
  EXPECT_EQ(fields[5].dtype, DType::i32);
  const IndexedSample first = read_indexed(*data, kValidation, 0, 6);
  EXPECT_THAT(first.tokens, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(first.targets, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(first.positions, ElementsAre(0, 1, 2, 0, 1, 0));
  EXPECT_THAT(first.first, ElementsAre(0, 0, 0, 3, 3, 5));
  EXPECT_THAT(first.last, ElementsAre(2, 2, 2, 4, 4, 5));
  EXPECT_THAT(first.mask, ElementsAre(1, 1, 0, 1, 0, 1));
  // It begins within a document, which counts from the window on.
  const IndexedSample second = read_indexed(*data, kValidation, 1, 6);
  EXPECT_THAT(second.tokens, ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_THAT(second.positions, ElementsAre(0, 1, 2, 3, 0, 1));
  EXPECT_THAT(second.first, ElementsAre(0, 0, 0, 0, 4, 4));
  EXPECT_THAT(second.last, ElementsAre(3, 3, 3, 3, 5, 5));
  EXPECT_THAT(second.mask, ElementsAre(1, 1, 1, 0, 1, 1));
}

TEST(IndexedDataset, ADocumentEndsWithItsLastTokenOnly) {
  const TestFolder folder;
  write_documents(folder.at("a"), {6, 7, 7});
  const auto data = open_indexed(both(folder.at("a")) + kApart, {.length = 6});
  // The last token of the window ends a document, and its target is the next one's first token.
  EXPECT_THAT(read_indexed(*data, kValidation, 0, 6).mask, ElementsAre(1, 1, 1, 1, 1, 0));
  // The end is the target of the window's last token: that is learned.
  EXPECT_THAT(read_indexed(*data, kValidation, 1, 6).mask, ElementsAre(1, 1, 1, 1, 1, 1));
  const IndexedSample third = read_indexed(*data, kValidation, 2, 6);
  EXPECT_THAT(third.mask, ElementsAre(0, 1, 1, 1, 1, 1));
  EXPECT_THAT(third.positions, ElementsAre(0, 0, 1, 2, 3, 4));
  EXPECT_THAT(third.first, ElementsAre(0, 1, 1, 1, 1, 1));
  EXPECT_THAT(third.last, ElementsAre(0, 5, 5, 5, 5, 5));
}

TEST(IndexedDataset, DocumentsOfSeveralSequencesAreOne) {
  const TestFolder folder;
  TokenFileWriter writer(folder.at("a"), TokenType::u16);
  writer.add(std::vector<i32>{1, 2});
  writer.add(std::vector<i32>{3, 4});
  writer.end_document();
  writer.add(std::vector<i32>{5, 6, 7});
  writer.end_document();
  writer.finish("");
  const auto data = open_indexed(both(folder.at("a")) + kApart, {.length = 6});
  const IndexedSample sample = read_indexed(*data, kValidation, 0, 6);
  EXPECT_THAT(sample.positions, ElementsAre(0, 1, 2, 3, 0, 1));
  EXPECT_THAT(sample.mask, ElementsAre(1, 1, 1, 0, 1, 1));
}

TEST(IndexedDataset, EachOfTheThreeIsOfItsOwn) {
  const TestFolder folder;
  write_documents(folder.at("a"), {3, 4});
  const auto positions =
      open_indexed(both(folder.at("a")) + "reset_positions = true\n", {.length = 5});
  EXPECT_THAT(read_indexed(*positions, kValidation, 0, 5).positions, ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(read_indexed(*positions, kValidation, 0, 5).mask, ElementsAre(1, 1, 1, 1, 1));
  EXPECT_EQ(positions->fields().size(), 4u);
  const auto attention =
      open_indexed(both(folder.at("a")) + "reset_attention = true\n", {.length = 5});
  EXPECT_THAT(read_indexed(*attention, kValidation, 0, 5).first, ElementsAre(0, 0, 0, 3, 3));
  EXPECT_THAT(read_indexed(*attention, kValidation, 0, 5).positions, IsEmpty());
  const auto mask = open_indexed(both(folder.at("a")) + "mask_eod_loss = true\n", {.length = 5});
  EXPECT_THAT(read_indexed(*mask, kValidation, 0, 5).mask, ElementsAre(1, 1, 0, 1, 1));
  EXPECT_EQ(mask->fields().size(), 3u);
  const std::set<std::string> prints = {
      positions->fingerprint(), attention->fingerprint(), mask->fingerprint()};
  EXPECT_EQ(prints.size(), 3u);
}

TEST(IndexedDataset, SplitsRoundToEvenAsPythonDoes) {
  const TestFolder folder;
  write_documents(folder.at("a"), {10, 10, 10, 10, 10});
  const auto counts = [&](const std::string& split) {
    const auto data = open_indexed(path_key(folder.at("a")) + "split = \"" + split + "\"\n", {});
    return std::vector<i64>{data->content(kTrain).documents,
                            data->content(kValidation).documents,
                            data->content(SampleSet::test).documents};
  };
  EXPECT_THAT(counts("1,1,0"), ElementsAre(2, 3, 0)) << "2.5 becomes 2";
  EXPECT_THAT(counts("7,3"), ElementsAre(4, 1, 0)) << "3.5 becomes 4";
  EXPECT_THAT(counts("1,1,1"), ElementsAre(2, 1, 2));
  EXPECT_THAT(counts("98,2,0"), ElementsAre(5, 0, 0));
  EXPECT_THAT(counts("3"), ElementsAre(5, 0, 0));
  const auto data = open_indexed(path_key(folder.at("a")) + "split = \"1,1,1\"\n", {});
  EXPECT_EQ(read_indexed(*data, kValidation, 0, 4).tokens, counting(20, 4));
  EXPECT_EQ(read_indexed(*data, SampleSet::test, 1, 4).tokens, counting(34, 4));
}

TEST(IndexedDataset, WithoutWeightsFilesAreOneCorpus) {
  const TestFolder folder;
  write_documents(folder.at("a"), {9});
  write_documents(folder.at("b"), {3}, 100);  // too short for a sample
  write_documents(folder.at("c"), {13}, 200);
  const auto data = open_indexed("path = [\"" + folder.at("a") + "\", \"" + folder.at("b") +
                                     "\", \"" + folder.at("c") + "\"]\nsplit = \"1\"\n",
                                 {});
  ASSERT_EQ(data->size(kTrain), 5);
  std::vector<i64> begins;
  for (i64 i = 0; i < 5; ++i) begins.push_back(read_indexed(*data, kTrain, 5 + i, 4).tokens[0]);
  std::ranges::sort(begins);
  EXPECT_THAT(begins, ElementsAre(0, 4, 200, 204, 208));
}

// Which file each sample of a blend is of, and which of its windows; found without a shuffle.
struct Drawn {
  std::vector<int> sets;
  std::vector<i64> windows;
};

class BlendOf {
 public:
  BlendOf(const std::vector<std::string>& weights, int windows) {
    std::string list;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::string path = folder_.at("set" + std::to_string(i));
      write_documents(path, {windows + 1}, static_cast<i32>(i) * 100'000);
      list += "\"" + weights[i] + "\", \"" + path + "\", ";
    }
    data_ =
        open_indexed("path = [" + list + "]\nvalidation_path = [" + list + "]\n", {.length = 1});
  }
  std::pair<int, i64> at(i64 ordinal) const {
    const i64 token = read_indexed(*data_, kValidation, ordinal, 1).tokens[0];
    return {static_cast<int>(token / 100'000), token % 100'000};
  }
  std::vector<int> sets(i64 begin, i64 count) const {
    std::vector<int> out;
    for (i64 i = begin; i < begin + count; ++i) out.push_back(at(i).first);
    return out;
  }
  const Dataset& data() const { return *data_; }

 private:
  TestFolder folder_;
  std::shared_ptr<Dataset> data_;
};

TEST(IndexedBlend, TakesWhatIsFurthestBehind) {
  const BlendOf blend({"0.3", "0.7"}, 100);
  EXPECT_THAT(blend.sets(0, 10), ElementsAre(1, 0, 1, 1, 0, 1, 1, 0, 1, 1));  // FACTS: Megatron's
  EXPECT_THAT(blend.sets(10, 10), ElementsAre(0, 1, 1, 1, 0, 1, 1, 0, 1, 1)) << "a tie at 10";
}

TEST(IndexedBlend, TiesGoToTheFirst) {
  const BlendOf blend({"1", "1", "1"}, 20);
  EXPECT_THAT(blend.sets(0, 7), ElementsAre(0, 1, 2, 0, 1, 2, 0));
}

TEST(IndexedBlend, IsTheGreedyRuleAnywhere) {
  const std::vector<i64> parts = {1234, 3333, 5433};
  const BlendOf blend({"0.1234", "0.3333", "0.5433"}, 30'000);
  std::vector<i64> taken(3);
  std::vector<std::pair<int, i64>> expected;
  for (i64 i = 0; i < 25'000; ++i) {
    std::size_t most = 0;
    const auto behind = [&](std::size_t j) {
      return parts[j] * std::max<i64>(i, 1) - 10'000 * taken[j];
    };
    for (std::size_t j = 1; j < 3; ++j) {
      if (behind(j) > behind(most)) most = j;
    }
    expected.emplace_back(static_cast<int>(most), taken[most]++);
  }
  for (i64 k = 0; k < 25'000; ++k) {  // in no order
    const i64 i = k * 7919 % 25'000;
    ASSERT_EQ(blend.at(i), expected[static_cast<std::size_t>(i)]) << i;
  }
}

TEST(IndexedBlend, AValidationSetEndsBeforeAWindowComesTwice) {
  const BlendOf blend({"1", "3"}, 30);
  const i64 size = blend.data().size(kValidation);
  EXPECT_GE(size, 36);
  EXPECT_LE(size, 40);
  std::set<std::pair<int, i64>> seen;
  for (i64 i = 0; i < size; ++i) EXPECT_TRUE(seen.insert(blend.at(i)).second) << i;
  EXPECT_EQ(blend.data().size(kTrain), 60);
}

TEST(IndexedBlend, SmallWeightsOfLongNumbersGetTheirShare) {
  const BlendOf blend({"123456789", "987", "50000000.5"}, 99'000);
  std::vector<i64> taken(3);
  for (const int set : blend.sets(0, 100'000)) ++taken[static_cast<std::size_t>(set)];
  EXPECT_NEAR(static_cast<double>(taken[0]), 100'000 * 123456789.0 / 173457776.5, 2);
  EXPECT_LE(taken[1], 2);
}

TEST(IndexedBlend, ASetSplitOffIsEmptyWhereAFileHasNoneOfIt) {
  const TestFolder folder;
  write_documents(folder.at("a"), {40, 40, 40, 40});
  write_documents(folder.at("b"), {9});
  const std::string list =
      "path = [\"1\", \"" + folder.at("a") + "\", \"2\", \"" + folder.at("b") + "\"]\n";
  const auto data = open_indexed(list + "split = \"3,1\"\n", {.length = 4});
  EXPECT_EQ(data->size(kValidation), 0);
  EXPECT_EQ(data->size(kTrain), 31);
}

std::string packed(const std::string& path) {
  return both(path) + "pack = \"documents\"\nreset_attention = true\nreset_positions = true\n";
}

TEST(IndexedPack, HasEachDocumentWholeAndOnce) {
  const TestFolder folder;
  const std::vector<int> lengths = {5, 3, 9, 1, 0, 4, 2, 2, 6};
  write_documents(folder.at("a"), lengths);
  std::vector<int> document_of, place_of;  // of each token
  for (int i = 0; i < static_cast<int>(lengths.size()); ++i) {
    for (int k = 0; k < lengths[static_cast<std::size_t>(i)]; ++k) {
      document_of.push_back(i);
      place_of.push_back(k);
    }
  }
  const auto data = open_indexed(packed(folder.at("a")), {.length = 5});
  ASSERT_EQ(data->size(kTrain), 5) << "24 places";
  for (const SampleSet set : {kTrain, kValidation}) {
    std::vector<i64> learned;
    for (i64 i = 0; i < data->size(set); ++i) {
      const IndexedSample sample = read_indexed(*data, set, i, 5);
      for (std::size_t at = 0; at < 5; ++at) {
        const auto place = static_cast<i32>(at);
        if (sample.mask[at] == 0) {  // padding, to the end
          EXPECT_EQ(sample.tokens[at], 0);
          EXPECT_EQ(sample.first[at], place);
          EXPECT_EQ(sample.last[at], place);
          if (at < 4) EXPECT_EQ(sample.mask[at + 1], 0);
          continue;
        }
        const i64 token = sample.tokens[at];
        EXPECT_EQ(sample.targets[at], token + 1);
        EXPECT_EQ(document_of[static_cast<std::size_t>(token)],
                  document_of[static_cast<std::size_t>(token) + 1]);
        EXPECT_EQ(sample.positions[at], place - sample.first[at]);
        // Documents of up to six tokens are whole.
        if (document_of[static_cast<std::size_t>(token)] != 2) {
          EXPECT_EQ(sample.positions[at], place_of[static_cast<std::size_t>(token)]);
        }
        learned.push_back(token);
      }
    }
    std::ranges::sort(learned);
    std::vector<i64> expected;
    for (i64 token = 0; token + 1 < static_cast<i64>(document_of.size()); ++token) {
      const auto at = static_cast<std::size_t>(token);
      if (document_of[at] == document_of[at + 1]) expected.push_back(token);
    }
    EXPECT_EQ(learned, expected);
  }
}

TEST(IndexedPack, IsKeptBesideTheRun) {
  const TestFolder folder;
  write_documents(folder.at("a"), {5, 3, 9, 1, 0, 4});
  const OpenIndexed kept = {.length = 5, .keep_in = folder.at("kept")};
  const auto memory = open_indexed(packed(folder.at("a")), {.length = 5});
  const auto first = open_indexed(packed(folder.at("a")), kept);
  const auto second = open_indexed(packed(folder.at("a")), kept);
  for (i64 i = 0; i < memory->size(kTrain); ++i) {
    const IndexedSample sample = read_indexed(*memory, kTrain, i, 5);
    EXPECT_EQ(read_indexed(*first, kTrain, i, 5), sample);
    EXPECT_EQ(read_indexed(*second, kTrain, i, 5), sample);
  }
}

TEST(IndexedPack, RefusesWhatHasNoEffect) {
  const TestFolder folder;
  write_documents(folder.at("a"), {5, 3});
  const auto error = [&](const std::string& keys) {
    return text_of<ConfigError>(
        [&] { open_indexed(path_key(folder.at("a")) + "pack = \"documents\"\n" + keys, {}); });
  };
  EXPECT_THAT(error(""), HasSubstr("set data.reset_attention = true"));
  EXPECT_THAT(error("order = \"megatron\"\n"), HasSubstr("packs nothing"));
  EXPECT_THAT(error("reset_attention = true\nmask_eod_loss = true\n"),
              HasSubstr("data.mask_eod_loss has no effect"));
  EXPECT_THAT(error("reset_attention = true\nvalidation_tail = true\n"),
              HasSubstr("data.validation_tail has no effect"));
  write_documents(folder.at("a"), {1, 1, 1});
  EXPECT_THAT(error("reset_attention = true\n"), HasSubstr("no document has two tokens"));
}

TEST(IndexedDataset, ATailIsPaddedAndMasked) {
  const TestFolder folder;
  write_documents(folder.at("a"), {5, 5});
  const auto data =
      open_indexed(both(folder.at("a")) + kApart + "validation_tail = true\n", {.length = 4});
  EXPECT_EQ(data->size(kTrain), 2);
  ASSERT_EQ(data->size(kValidation), 3);
  const IndexedSample tail = read_indexed(*data, kValidation, 2, 4);
  EXPECT_THAT(tail.tokens, ElementsAre(8, 9, 0, 0));
  EXPECT_THAT(tail.targets, ElementsAre(9, 0, 0, 0));
  EXPECT_THAT(tail.mask, ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(tail.positions, ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(tail.first, ElementsAre(0, 0, 2, 3)) << "padding sees itself alone";
  EXPECT_THAT(tail.last, ElementsAre(1, 1, 2, 3));
}

TEST(IndexedDataset, RefusesIdsOutsideTheVocabulary) {
  const TestFolder folder;
  write_documents(folder.at("a"), {4, 3, 6}, 50'290);
  const auto data = open_indexed(both(folder.at("a")), {.length = 5, .vocabulary = 50'300});
  read_indexed(*data, kValidation, 0, 5);
  EXPECT_THAT(text_of<Error>([&] { read_indexed(*data, kValidation, 1, 5); }),
              HasSubstr("a: token 50300 of document 2 is outside the model's vocabulary of 50300"));
  // The window's last target counts as well.
  const auto less = open_indexed(both(folder.at("a")), {.length = 5, .vocabulary = 50'295});
  EXPECT_THAT(text_of<Error>([&] { read_indexed(*less, kValidation, 0, 5); }),
              HasSubstr("token 50295 of document 1"));
  TokenFileWriter writer(folder.at("b"), TokenType::i64);
  writer.add(std::vector<i32>{1, 2, -7, 4});
  writer.end_document();
  writer.finish("");
  const auto negative = open_indexed(both(folder.at("b")), {.length = 2});
  EXPECT_THAT(text_of<Error>([&] { read_indexed(*negative, kValidation, 0, 2); }),
              HasSubstr("token -7 of document 0 is outside the tokenizer's vocabulary of 1000000"));
}

TEST(IndexedDataset, RefusesFilesOfAnotherTokenizer) {
  const TestFolder folder;
  write_documents(folder.at("a"), {9}, 0, "gpt2: 50257 tokens, 1a2b");
  EXPECT_THAT(
      text_of<ConfigError>([&] { open_indexed(path_key(folder.at("a")), {}); }),
      HasSubstr("was made with tokenizer gpt2: 50257 tokens, 1a2b, [tokenizer] is numbers"));
  write_documents(folder.at("a"), {9}, 0, "numbers");
  EXPECT_NO_THROW(open_indexed(path_key(folder.at("a")), {}));
}

TEST(IndexedDataset, RefusesWhatIsNoList) {
  const TestFolder folder;
  write_documents(folder.at("a"), {9});
  write_documents(folder.at("b"), {3});
  const std::string a = "\"" + folder.at("a") + "\"", b = "\"" + folder.at("b") + "\"";
  const auto error = [&](const std::string& keys) {
    return text_of<ConfigError>([&] { open_indexed(keys, {}); });
  };
  EXPECT_THAT(error("path = [\"0.3\", " + a + ", " + b + "]\n"),
              HasSubstr("data.path: 3 values: weights and prefixes come in pairs"));
  EXPECT_THAT(error("path = [" + a + ", \"0.3\"]\n"),
              HasSubstr("a weight and then its prefix were expected"));
  EXPECT_THAT(error("path = [\"0\", " + a + "]\n"), HasSubstr("the weight 0 of"));
  EXPECT_THAT(error("path = []\n"), HasSubstr("data.path: no prefix"));
  EXPECT_THAT(error("path = [\"1\", " + a + ", \"2\", " + b + "]\nsplit = \"1\"\n"),
              HasSubstr("has 3 tokens; one sample of sequence length 4 needs 5"));
  EXPECT_THAT(error("path = " + b + "\n"),
              HasSubstr("the training part of each file has 3 tokens"));
  EXPECT_THAT(error("path = " + a + "\nsplit = \"98;2\"\n"),
              HasSubstr("data.split = \"98;2\": up to 3 shares"));
  EXPECT_THAT(error("path = " + a + "\nsplit = \"0,0,0\"\n"), HasSubstr("data.split"));
  EXPECT_THAT(error("path = " + a + "\nsplit = \"1\"\ntest_path = " + a + "\n"),
              HasSubstr("data.split = \"1\" and data.test_path"));
}

TEST(IndexedDataset, FingerprintsFollowTheContentNotThePlace) {
  const TestFolder folder;
  write_documents(folder.at("a"), {9, 9});
  write_documents(folder.at("b"), {9, 9});
  write_documents(folder.at("c"), {9, 9}, 1);
  const auto print = [&](const std::string& keys, u64 seed = 1) {
    return open_indexed(keys, {.seed = seed})->fingerprint();
  };
  const std::string a = print(path_key(folder.at("a")));
  EXPECT_EQ(print(path_key(folder.at("b"))), a);
  EXPECT_NE(print(path_key(folder.at("c"))), a);
  EXPECT_NE(print(path_key(folder.at("a")) + "split = \"1,1\"\n"), a);
  EXPECT_NE(print("path = [\"1\", \"" + folder.at("a") + "\", \"2\", \"" + folder.at("c") +
                  "\"]\nsplit = \"1\"\n"),
            print("path = [\"2\", \"" + folder.at("a") + "\", \"1\", \"" + folder.at("c") +
                  "\"]\nsplit = \"1\"\n"));
}

}  // namespace indexed_dataset_test
}  // namespace tessera
