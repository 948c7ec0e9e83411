// The order "megatron" of the dataset `indexed`. The numbers are those of megatron-core;
// tests/oracle/megatron_data.py compares many more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/plugins/token_files.hpp"

namespace tessera {
namespace megatron_order_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kTrain = SampleSet::train;

const std::string kMegatron = "order = \"megatron\"\nsplit = \"1,0,0\"\n";

struct Case {
  std::vector<int> lengths;  // of documents
  std::vector<int> documents;
  std::vector<std::pair<int, int>> starts;
  std::vector<int> shuffle;

  // Tokens of a sample and the one after it.
  std::vector<i64> sample(std::size_t ordinal, int length) const {
    auto [place, token] = starts[static_cast<std::size_t>(shuffle[ordinal])];
    std::vector<i64> ids;
    while (static_cast<int>(ids.size()) < length + 1) {
      const int document = documents[static_cast<std::size_t>(place)];
      int id = token;
      for (int i = 0; i < document; ++i) id += lengths[static_cast<std::size_t>(i)];
      ids.push_back(id);
      if (++token == lengths[static_cast<std::size_t>(document)]) ++place, token = 0;
    }
    return ids;
  }
};

const Case kCase = {{5, 3, 7, 4},
                    {2, 1, 2, 0, 0, 1, 3, 3, 0, 2, 1, 3},
                    {{0, 0},
                     {0, 4},
                     {1, 1},
                     {2, 2},
                     {2, 6},
                     {3, 3},
                     {4, 2},
                     {5, 1},
                     {6, 2},
                     {7, 2},
                     {8, 2},
                     {9, 1},
                     {9, 5},
                     {10, 2},
                     {11, 3}},
                    {7, 3, 5, 1, 4, 8, 0, 2, 6, 13, 10, 12, 9, 11}};

TEST(MegatronOrder, HasTheSamplesOfTheWorkedCase) {
  const TestFolder folder;
  write_documents(folder.at("a"), kCase.lengths);
  const auto data =
      open_indexed(path_key(folder.at("a")) + kMegatron, {.seed = 1234, .samples = 10});
  ASSERT_EQ(data->size(kTrain), 14);
  EXPECT_THAT(read_indexed(*data, kTrain, 0, 4).tokens, ElementsAre(6, 7, 15, 16));
  for (std::size_t i = 0; i < 14; ++i) {
    const IndexedSample sample = read_indexed(*data, kTrain, static_cast<i64>(i), 4);
    std::vector<i64> ids = kCase.sample(i, 4);
    EXPECT_EQ(sample.targets, std::vector<i64>(ids.begin() + 1, ids.end())) << i;
    ids.pop_back();
    EXPECT_EQ(sample.tokens, ids) << i;
  }
  EXPECT_THAT(text_of<Error>([&] { read_indexed(*data, kTrain, 14, 4); }),
              HasSubstr("has 14 samples, sample 14 was asked for"));
}

TEST(MegatronOrder, KeepsDocumentsApart) {
  const TestFolder folder;
  write_documents(folder.at("a"), kCase.lengths);
  const auto data = open_indexed(path_key(folder.at("a")) + kMegatron +
                                     "reset_positions = true\nreset_attention = true\n"
                                     "mask_eod_loss = true\n",
                                 {.seed = 1234, .samples = 10});
  const IndexedSample sample = read_indexed(*data, kTrain, 0, 4);  // 6 7 | 15 16 17
  EXPECT_THAT(sample.positions, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(sample.first, ElementsAre(0, 0, 2, 2));
  EXPECT_THAT(sample.last, ElementsAre(1, 1, 3, 3));
  EXPECT_THAT(sample.mask, ElementsAre(1, 0, 1, 1));
}

TEST(MegatronOrder, NamesTheDocumentsOfASample) {
  const TestFolder folder;
  write_documents(folder.at("a"), kCase.lengths);
  const auto data =
      open_indexed(path_key(folder.at("a")) + kMegatron, {.seed = 1234, .samples = 10});
  EXPECT_EQ(data->origin(kTrain, 0), "documents 1, 3 of " + folder.at("a"));
}

TEST(MegatronOrder, BlendsAsTheWorkedCase) {
  const TestFolder folder;
  write_documents(folder.at("a"), kCase.lengths);
  write_documents(folder.at("b"), {6, 2, 9}, 100);
  const auto data = open_indexed("path = [\"0.3\", \"" + folder.at("a") + "\", \"0.7\", \"" +
                                     folder.at("b") + "\"]\n" + kMegatron,
                                 {.seed = 1234, .samples = 10});
  const auto a = open_indexed(path_key(folder.at("a")) + kMegatron, {.seed = 1234, .samples = 4});
  const auto b = open_indexed(path_key(folder.at("b")) + kMegatron, {.seed = 1234, .samples = 8});
  ASSERT_EQ(data->size(kTrain), 10);
  const std::vector<int> sets = {1, 0, 1, 1, 0, 1, 1, 0, 1, 1};
  const std::vector<int> ordinals = {0, 0, 1, 2, 1, 3, 4, 2, 5, 6};
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(read_indexed(*data, kTrain, static_cast<i64>(i), 4),
              read_indexed(sets[i] == 0 ? *a : *b, kTrain, ordinals[i], 4))
        << i;
  }
}

TEST(MegatronOrder, TiesGoToTheFirstOfABlend) {
  const TestFolder folder;
  std::string list;
  for (int i = 0; i < 3; ++i) {
    const std::string path = folder.at("set" + std::to_string(i));
    write_documents(path, {50}, 100 * i);
    list += "\"1\", \"" + path + "\", ";
  }
  const auto data = open_indexed("path = [" + list + "]\n" + kMegatron, {.samples = 7});
  std::vector<i64> sets;
  for (i64 i = 0; i < 7; ++i) sets.push_back(read_indexed(*data, kTrain, i, 4).tokens[0] / 100);
  EXPECT_THAT(sets, ElementsAre(0, 1, 2, 0, 1, 2, 0));
}

TEST(MegatronOrder, RoundsTheLastSampleUpInSinglePrecision) {
  const TestFolder folder;
  // 2^24 + 1 targets in samples of 4,096: in FP32 that is 2^24, and 4,096 samples.
  constexpr i32 kTokens = (1 << 24) + 2;
  std::string index("MMIDIDX\0\0\1\0\0\0\0\0\0\0\1\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 34);
  index.append(reinterpret_cast<const char*>(&kTokens), sizeof kTokens);
  for (const i64 value : {0, 0, 1}) {  // its place, and the bounds of one document
    index.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  folder.write("a.idx", index);
  folder.write("a.bin", "");
  std::filesystem::resize_file(folder.at("a.bin"), kTokens);  // takes no room on the disk
  write_documents(folder.at("b"), {9});
  const std::string keys = path_key(folder.at("b")) + path_key(folder.at("a"), "validation_path") +
                           "validation_tail = true\norder = ";
  const auto megatron = open_indexed(keys + "\"megatron\"\n", {.length = 4096, .samples = 1});
  EXPECT_EQ(megatron->size(SampleSet::validation), 4096);
  write_documents(folder.at("b"), {4097});
  const auto own = open_indexed(keys + "\"tessera\"\n", {.length = 4096, .samples = 1});
  EXPECT_EQ(own->size(SampleSet::validation), 4097);
}

TEST(MegatronOrder, WithoutWeightsHasEachSampleOnce) {
  const TestFolder folder;
  write_documents(folder.at("a"), {9});
  write_documents(folder.at("b"), {13}, 100);
  const std::string keys =
      "path = [\"" + folder.at("a") + "\", \"" + folder.at("b") + "\"]\n" + kMegatron;
  EXPECT_EQ(open_indexed(keys, {.samples = 5})->size(kTrain), 5);
  EXPECT_EQ(open_indexed(keys, {})->size(kTrain), 5);
  EXPECT_THAT(text_of<ConfigError>([&] { open_indexed(keys, {.samples = 6}); }),
              HasSubstr("reads each file once, 5 samples, and the run has 6"));
}

TEST(MegatronOrder, KeepsItsArraysBesideTheRun) {
  namespace fs = std::filesystem;
  const TestFolder folder;
  write_documents(folder.at("a"), kCase.lengths);
  write_documents(folder.at("b"), {6, 2, 9}, 100);
  const std::string keys = "path = [\"0.3\", \"" + folder.at("a") + "\", \"0.7\", \"" +
                           folder.at("b") + "\"]\n" + kMegatron;
  const OpenIndexed kept = {.seed = 1234, .samples = 10, .keep_in = folder.at("kept/data")};
  const auto all = [](const Dataset& data) {
    std::vector<IndexedSample> samples;
    for (i64 i = 0; i < 10; ++i) samples.push_back(read_indexed(data, kTrain, i, 4));
    return samples;
  };
  const auto expected = all(*open_indexed(keys, {.seed = 1234, .samples = 10}));
  EXPECT_EQ(all(*open_indexed(keys, kept)), expected);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kept.keep_in)) {
    EXPECT_NE(entry.path().extension(), ".partial");
    if (entry.path().extension() != ".lock") files.push_back(entry.path());
  }
  ASSERT_EQ(files.size(), 3u) << "two indices and a blend";
  // What is found is used, and a file that is not whole is made again.
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const fs::path& file : files) fs::last_write_time(file, long_ago);
  EXPECT_EQ(all(*open_indexed(keys, kept)), expected);
  for (const fs::path& file : files) EXPECT_EQ(fs::last_write_time(file), long_ago);
  for (const fs::path& file : files) fs::resize_file(file, fs::file_size(file) - 3);
  EXPECT_EQ(all(*open_indexed(keys, kept)), expected);
}

TEST(MegatronOrder, OtherStepsAreAnotherOrder) {
  const TestFolder folder;
  write_documents(folder.at("a"), kCase.lengths);
  const auto print = [&](const std::string& order, i64 samples) {
    return open_indexed(path_key(folder.at("a")) + order, {.samples = samples})->fingerprint();
  };
  EXPECT_NE(print(kMegatron, 10), print(kMegatron, 11));
  EXPECT_THAT(print(kMegatron, 10), HasSubstr("order megatron for 10 samples (run.steps"));
  EXPECT_EQ(print("split = \"1\"\n", 10), print("split = \"1\"\n", 11));
  EXPECT_THAT(text_of<ConfigError>([&] {
                open_indexed(path_key(folder.at("a")) + kMegatron, {.seed = u64{1} << 32});
              }),
              HasSubstr("run.seed is 4294967296"));
}

}  // namespace megatron_order_test
}  // namespace tessera
