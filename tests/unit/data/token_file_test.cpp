#include "tessera/io/token_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "tests/common/error_of.hpp"
#include "tests/common/test_folder.hpp"

namespace tessera {
namespace token_file_test {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TestFolder;

std::string unhex(std::string_view text) {
  std::string bytes;
  std::string digits;
  for (const char c : text) {
    if (c != ' ') digits += c;
    if (digits.size() < 2) continue;
    bytes += static_cast<char>(std::stoi(digits, nullptr, 16));
    digits.clear();
  }
  return bytes;
}

// Megatron-LM's IndexedDatasetBuilder wrote these for the documents {1, 2, 3} and {4 | 5, 6, 7}.
const std::string kIndex = unhex(
    "4d4d49444944580000 0100000000000000 08 0300000000000000 0300000000000000"
    "03000000 01000000 03000000"
    "0000000000000000 0600000000000000 0800000000000000"
    "0000000000000000 0100000000000000 0300000000000000");
const std::string kData = unhex("0100 0200 0300 0400 0500 0600 0700");

std::vector<i64> ids_of(const TokenFile& file, i64 begin, i64 count) {
  std::vector<i64> ids(static_cast<std::size_t>(count), -1);
  file.copy(begin, count, ids.data());
  return ids;
}

void write_example(const std::string& prefix, TokenType type) {
  TokenFileWriter writer(prefix, type);
  writer.add(std::vector<i32>{1, 2, 3});
  writer.end_document();
  writer.add(std::vector<i32>{4});
  writer.add(std::vector<i32>{5, 6, 7});
  writer.end_document();
  writer.finish("byte: 256 tokens");
}

TEST(TokenFile, WritesWhatMegatronWrites) {
  const TestFolder folder;
  write_example(folder.at("a"), TokenType::u16);
  EXPECT_EQ(folder.read("a.idx"), kIndex);
  EXPECT_EQ(folder.read("a.bin"), kData);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  EXPECT_THAT(names, ElementsAre("a.bin", "a.idx", "a.report.json"));
}

TEST(TokenFile, ReadsWhatMegatronWrites) {
  const TestFolder folder;
  folder.write("a.idx", kIndex);
  folder.write("a.bin", kData);
  const TokenFile file(folder.at("a"));
  const TokenIndex& index = file.index();
  EXPECT_EQ(index.type(), TokenType::u16);
  EXPECT_EQ(index.sequences(), 3);
  EXPECT_EQ(index.documents(), 2);
  EXPECT_EQ(index.tokens(), 7);
  EXPECT_FALSE(index.has_modes());
  EXPECT_EQ(index.begin(2), 4);
  EXPECT_EQ(index.begin(3), 7);
  EXPECT_EQ(index.document_begin(1), 3);
  EXPECT_EQ(index.document_begin(2), 7);
  EXPECT_THAT(ids_of(file, 0, 7), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(ids_of(file, 2, 3), ElementsAre(3, 4, 5));
  std::vector<i64> documents, sequences;
  for (i64 token = 0; token < 7; ++token) {
    documents.push_back(index.document_at(token));
    sequences.push_back(index.sequence_at(token));
  }
  EXPECT_THAT(documents, ElementsAre(0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(sequences, ElementsAre(0, 0, 0, 1, 2, 2, 2));
  EXPECT_EQ(file.tokenizer(), "") << "there is no report";
  ASSERT_EQ(file.files().size(), 2u);
  EXPECT_THAT(file.files()[1]->path(), EndsWith("a.bin"));
}

TEST(TokenFile, EveryTypeComesBack) {
  for (int number = 1; number <= 8; ++number) {
    const auto type = static_cast<TokenType>(number);
    const TestFolder folder;
    write_example(folder.at("a"), type);
    const TokenFile file(folder.at("a"));
    EXPECT_EQ(file.index().type(), type);
    EXPECT_THAT(ids_of(file, 1, 5), ElementsAre(2, 3, 4, 5, 6)) << token_type_name(type);
    EXPECT_EQ(static_cast<i64>(folder.read("a.bin").size()), 7 * token_type_size(type));
    EXPECT_EQ(static_cast<int>(folder.read("a.idx")[17]), number);
    EXPECT_EQ(file.tokenizer(), "byte: 256 tokens");
  }
}

TEST(TokenFile, RefusesIdsThatItsTypeCannotHold) {
  const TestFolder folder;
  TokenFileWriter writer(folder.at("a"), TokenType::u16);
  EXPECT_THAT(error_of([&] {
                writer.add(std::vector<i32>{1, 65536});
              }),
              EndsWith("a: token 65536 does not fit into u16"));
  EXPECT_THAT(error_of([&] { writer.add(std::vector<i32>{-1}); }), HasSubstr("token -1"));
  TokenFileWriter floats(folder.at("b"), TokenType::f32);
  EXPECT_THAT(error_of([&] { floats.add(std::vector<i32>{(1 << 24) + 1}); }),
              EndsWith("token 16777217 does not fit into f32"));
  EXPECT_EQ(token_type_for(65'499), TokenType::u16);
  EXPECT_EQ(token_type_for(65'500), TokenType::i32);
}

TEST(TokenFile, KeepsEmptyDocumentsAndModes) {
  const TestFolder folder;
  TokenFileWriter writer(folder.at("a"), TokenType::i32);
  writer.end_document();
  writer.add(std::vector<i32>{}, 1);
  writer.add(std::vector<i32>{9}, -2);
  writer.end_document();
  writer.end_document();
  EXPECT_THAT(error_of([&] { writer.add(std::vector<i32>{1}); }),
              HasSubstr("either all sequences have a mode or none"));
  writer.finish("");
  const TokenFile file(folder.at("a"));
  EXPECT_EQ(file.index().documents(), 3);
  EXPECT_EQ(file.index().document_begin(1), 0);
  EXPECT_EQ(file.index().document_begin(2), 1);
  EXPECT_EQ(file.index().document_at(0), 1) << "the one that has the token";
  EXPECT_EQ(file.index().sequence_at(0), 1);
  EXPECT_EQ(file.index().mode(0), 1);
  EXPECT_EQ(file.index().mode(1), -2);
}

TEST(TokenFile, CopiesDocumentsAsTheyAre) {
  const TestFolder folder;
  folder.write("a.idx", kIndex);
  folder.write("a.bin", kData);
  const TokenFile file(folder.at("a"));
  TokenFileWriter whole(folder.at("b"), TokenType::u16);
  whole.add_documents(file, 0, 1);
  whole.add_documents(file, 1, 2);
  whole.finish("");
  EXPECT_EQ(folder.read("b.idx"), kIndex);
  EXPECT_EQ(folder.read("b.bin"), kData);
  TokenFileWriter other(folder.at("c"), TokenType::i32);
  EXPECT_THAT(error_of([&] { other.add_documents(file, 0, 1); }), EndsWith("c has i32"));
}

TEST(TokenFile, LeavesNothingHalfWritten) {
  const TestFolder folder;
  write_example(folder.at("a"), TokenType::u16);
  {
    TokenFileWriter writer(folder.at("a"), TokenType::u16);
    writer.add(std::vector<i32>{8});
    EXPECT_TRUE(std::filesystem::exists(folder.at("a.bin.partial")));
    EXPECT_THAT(error_of([&] { writer.finish(""); }),
                EndsWith("a: the last 1 sequences are of no document"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder.at("a.bin.partial")));
  EXPECT_EQ(folder.read("a.idx"), kIndex) << "the older one is whole";
}

TEST(TokenFile, ReportsBelongToTheirIndex) {
  const TestFolder folder;
  write_example(folder.at("a"), TokenType::u16);
  write_example(folder.at("b"), TokenType::i32);
  std::filesystem::copy_file(
      folder.at("b.idx"), folder.at("a.idx"), std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy_file(
      folder.at("b.bin"), folder.at("a.bin"), std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(error_of([&] { const TokenFile file(folder.at("a")); }),
              HasSubstr("a.report.json is damaged: it is the report of other files"));
  folder.write("a.report.json", "{\"tokenizer\": 3}");
  EXPECT_THAT(error_of([&] { const TokenFile file(folder.at("a")); }),
              HasSubstr("a.report.json is damaged"));
  folder.write("a.report.json", "{\"made\": \"by hand\"}");
  EXPECT_EQ(TokenFile(folder.at("a")).tokenizer(), "");
}

TEST(TokenFile, HashSeesEveryByteOfSmallFiles) {
  const TestFolder folder;
  folder.write("a.idx", kIndex);
  folder.write("a.bin", kData);
  const u64 before = TokenFile(folder.at("a")).hash();
  std::string changed = kData;
  changed[12] = 8;
  folder.write("a.bin", changed);
  EXPECT_NE(TokenFile(folder.at("a")).hash(), before);
  folder.write("a.bin", kData);
  EXPECT_EQ(TokenFile(folder.at("a")).hash(), before);
}

// What an index is refused for; `change` is made to a good one.
template <class F>
std::string error_in_index(const F& change) {
  const TestFolder folder;
  std::string index = kIndex;
  change(index);
  folder.write("corpus.idx", index);
  folder.write("corpus.bin", kData);
  std::string error = error_of([&] { const TokenFile file(folder.at("corpus")); });
  const std::string prefix = folder.path().string() + "/";
  for (std::size_t at; (at = error.find(prefix)) != std::string::npos;) {
    error.erase(at, prefix.size());
  }
  return error;
}

template <class T>
auto put(std::size_t at, T value) {
  return [=](std::string& bytes) { std::memcpy(bytes.data() + at, &value, sizeof value); };
}

TEST(TokenFile, SaysAtWhichByteAnIndexIsWrong) {
  EXPECT_EQ(error_in_index(put<u64>(9, 2)), "corpus.idx: byte 9: version 2, known is 1");
  EXPECT_EQ(error_in_index(put<u8>(17, 9)),
            "corpus.idx: byte 17: type of tokens 9, known are 1 to 8");
  EXPECT_EQ(error_in_index(put<u8>(17, 4)),
            "corpus.idx: byte 54: sequence 1 begins at byte 6, "
            "the one before it ends at 12");
  EXPECT_EQ(error_in_index(put<u8>(3, 0)), "corpus.idx: byte 0: no index of tokens (MMIDIDX)");
  EXPECT_EQ(error_in_index(put<i32>(38, -1)), "corpus.idx: byte 38: sequence 1 has -1 tokens");
  EXPECT_EQ(error_in_index(put<i64>(62, 10)),
            "corpus.idx: byte 62: sequence 2 begins at byte 10, the one before it ends at 8");
  EXPECT_EQ(error_in_index(put<i64>(78, 4)),
            "corpus.idx: byte 78: bound 1 of the documents is sequence 4, not one of 0 to 3");
  EXPECT_EQ(error_in_index(put<i64>(70, 1)),
            "corpus.idx: byte 70: bound 0 of the documents is sequence 1, not one of 0 to 0");
  EXPECT_EQ(error_in_index(put<i64>(86, 2)),
            "corpus.idx: byte 86: the last document ends at sequence 2 of 3");
  EXPECT_EQ(error_in_index([](std::string& bytes) { bytes.resize(20); }),
            "corpus.idx has 20 bytes, the head of an index has 34");
  EXPECT_EQ(error_in_index([](std::string& bytes) { bytes += "ab"; }),
            "corpus.idx has 96 bytes, its 3 sequences and 2 documents need 94, or 97 with modes");
  EXPECT_THAT(error_in_index(put<u64>(18, ~u64{0})), HasSubstr("corpus.idx: byte 18: 1844674"));
  EXPECT_THAT(error_in_index(put<u64>(26, 0)), HasSubstr("3 sequences and 0 bounds"));
  EXPECT_EQ(error_in_index(put<i32>(42, 4)), "corpus.bin has 14 bytes, its index needs 16");
}

TEST(TokenFile, AnIndexOfOtherDataIsRefused) {
  const TestFolder folder;
  TokenFileWriter writer(folder.at("corpus"), TokenType::u16);
  writer.add(std::vector<i32>(1024, 7));
  writer.end_document();
  writer.finish("");
  folder.write("corpus.bin", std::string(1024, '\0'));
  EXPECT_THAT(error_of([&] { const TokenFile file(folder.at("corpus")); }),
              EndsWith("corpus.bin has 1024 bytes, its index needs 2048"));
  EXPECT_THAT(error_of([&] { const TokenFile file(folder.at("corpus.idx")); }),
              HasSubstr("give the prefix of both files, without .idx"));
  EXPECT_THAT(error_of<ConfigError>([&] { const TokenFile file(folder.at("none"), "data.path"); }),
              HasSubstr("data.path: cannot read"));
}

}  // namespace token_file_test
}  // namespace tessera
