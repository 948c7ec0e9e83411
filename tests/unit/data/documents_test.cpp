#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <vector>

#include "kernel/data/corpus_reader.hpp"
#include "kernel/data/text_check.hpp"
#include "tessera/io/utf8.hpp"
#include "tests/common/error_of.hpp"
#include "tests/common/test_folder.hpp"

namespace tessera {
namespace documents_test {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::TestFolder;

std::string gzipped(const std::string& text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstandard(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::vector<std::string> texts_of(const std::string& file) {
  std::vector<std::string> texts;
  read_corpus({file}, {}, [&](std::string_view text) { texts.emplace_back(text); });
  return texts;
}

// Of "id: text".
std::vector<std::string> documents_of(const std::vector<InputFile>& files, bool mends = false) {
  BlockReader reader(files);
  BlockDocuments documents({}, mends);
  std::vector<std::string> out;
  InputBlock block;
  while (reader.next(block)) {
    documents.each(block, [&](const ReadDocument& one) {
      out.push_back(std::string(one.id) + ": " + std::string(one.text));
    });
  }
  return out;
}

const std::string kLines =
    "{\"id\":\"a\",\"text\":\"one\"}\n\n{\"text\":\"two\\n\",\"n\":[1,{}]}\r\n{\"id\":7,\"text\":"
    "\"\"}";

TEST(Documents, LinesOfJsonAndTextsPlainAndPacked) {
  const TestFolder folder;
  folder.write("a.jsonl", kLines);
  folder.write("b.jsonl.gz", gzipped(kLines));
  folder.write("c.ndjson.zst", zstandard(kLines));
  folder.write("d.txt", "\xEF\xBB\xBFtext\n{}\n");
  folder.write("e.txt.gz", gzipped(""));
  const auto files = input_files({folder.at("*")}, folder.path().string());
  EXPECT_THAT(documents_of(files),
              ElementsAre("a: one",
                          "a.jsonl:3: two\n",
                          "7: ",
                          "a: one",
                          "b.jsonl.gz:3: two\n",
                          "7: ",
                          "a: one",
                          "c.ndjson.zst:3: two\n",
                          "7: ",
                          "d.txt: text\n{}\n",
                          "e.txt.gz: "));
}

TEST(Documents, PackedStreamsFollowOneAnother) {
  const TestFolder folder;
  const std::string first = kLines.substr(0, 10), rest = kLines.substr(10);
  EXPECT_THAT(texts_of(folder.write("a.jsonl.gz", gzipped(first) + gzipped("") + gzipped(rest))),
              ElementsAre("one", "two\n", ""));
  EXPECT_THAT(texts_of(folder.write("a.jsonl.zst", zstandard(first) + zstandard(rest))),
              ElementsAre("one", "two\n", ""));
}

// Blocks are cut at ends of lines, and lines are counted over them; a line may be larger.
TEST(Documents, BlocksOfALargeFile) {
  const TestFolder folder;
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 60; ++i) {
    const std::size_t size = i == 20 ? 11'000'000 : 300'000;
    const std::string own(size + static_cast<std::size_t>(i), static_cast<char>('a' + i % 26));
    text += "{\"text\":\"" + own + "\"}\n";
    expected.push_back("a.jsonl:" + std::to_string(i + 1) + ": " + own);
  }
  for (const std::string name : {"a.jsonl", "a.jsonl.gz", "a.jsonl.zst"}) {
    const std::string file = folder.write(name,
                                          name.ends_with(".gz")    ? gzipped(text)
                                          : name.ends_with(".zst") ? zstandard(text)
                                                                   : text);
    std::vector<InputFile> files = input_files({file}, folder.path().string());
    files[0].shown = "a.jsonl";
    EXPECT_TRUE(documents_of(files) == expected) << name;
    BlockReader reader(files);
    InputBlock block;
    int blocks = 0;
    while (reader.next(block)) {
      ++blocks;
      EXPECT_EQ(block.bytes().back(), '\n');
    }
    EXPECT_GT(blocks, 3) << name;
  }
}

std::string refused(const std::string& name, const std::string& content) {
  const TestFolder folder;
  folder.write(name, content);
  const auto files = input_files({folder.at(name)}, folder.path().string());
  return error_of([&] { documents_of(files); });
}

TEST(Documents, WhatIsWrongIsToldWithFileAndLine) {
  EXPECT_EQ(refused("part-3.jsonl", "{\"text\":\"\"}\n\n{\"txt\":\"a\"}\n"),
            "part-3.jsonl:3: no field \"text\"");
  EXPECT_EQ(refused("a.jsonl", "{\"text\":7}"),
            "a.jsonl:1: field \"text\" is a number where a string was expected");
  EXPECT_EQ(refused("a.jsonl", "{\"text\":\"\",\"text\":\"\"}"), "a.jsonl:1: two fields \"text\"");
  EXPECT_EQ(refused("a.jsonl", "{\"text\":\"\",\"id\":[]}"),
            "a.jsonl:1: field \"id\" is an array where a string or an integer was expected");
  EXPECT_EQ(refused("a.json", "[\n"),
            "a.json:1: no JSON: The JSON document has an improper "
            "structure: missing or superfluous commas, braces, missing "
            "keys, etc.");
  EXPECT_EQ(refused("a.jsonl", "[{\"text\":\"\"}]"),
            "a.jsonl:1: an array where an object was expected");
  EXPECT_THAT(refused("a.jsonl", "{\"text\":\"\"} {}"), HasSubstr("a.jsonl:1: no JSON"));
  EXPECT_THAT(refused("a.jsonl", "{\"text\":\"\",\"x\":tru}"), HasSubstr("a.jsonl:1: no JSON"));
  EXPECT_THAT(refused("a.jsonl", "{\"text\":\"\\ud800\"}"), HasSubstr("a.jsonl:1: no JSON"));
  EXPECT_THAT(refused("a.jsonl", "{\"text\":\"\",\"x\":" + std::string(100, '[') + "}"),
              HasSubstr("a.jsonl:1: no JSON"));
  EXPECT_EQ(refused("a.jsonl", "{}\n{\"text\":\"\xFF\"}").substr(0, 9), "a.jsonl:1");
  EXPECT_EQ(refused("a.jsonl", "{\"text\":\"\xFF\"}"),
            "a.jsonl:1: byte 10 of the line is no UTF-8; a build mends such text whose first stage "
            "is \"clean\"");
  EXPECT_EQ(refused("a.txt", "ab\xC0"),
            "a.txt: byte 3 is no UTF-8; a build mends such text whose first stage is \"clean\"");
}

TEST(Documents, PackedFilesThatAreDamaged) {
  const std::string gzip = gzipped(kLines), zstd = zstandard(kLines);
  for (std::size_t size = 0; size < gzip.size(); ++size) {
    EXPECT_EQ(refused("a.jsonl.gz", gzip.substr(0, size)),
              "a.jsonl.gz ends in the middle of its packed data");
  }
  for (std::size_t size = 0; size < zstd.size(); ++size) {
    EXPECT_EQ(refused("a.jsonl.zst", zstd.substr(0, size)),
              "a.jsonl.zst ends in the middle of its packed data");
  }
  EXPECT_EQ(refused("a.jsonl.gz", kLines), "a.jsonl.gz is damaged: incorrect header check");
  EXPECT_EQ(refused("a.jsonl.zst", kLines), "a.jsonl.zst is damaged: Unknown frame descriptor");
  EXPECT_THAT(refused("a.jsonl.gz", gzip + "x"), HasSubstr("a.jsonl.gz"));
  std::string changed = gzip;
  changed[gzip.size() - 6] ^= 1;  // its checksum
  EXPECT_EQ(refused("a.jsonl.gz", changed), "a.jsonl.gz is damaged: incorrect data check");
}

TEST(Documents, TextThatIsNoUtf8IsMendedWhereAStageTakesIt) {
  const TestFolder folder;
  folder.write("a.jsonl",
               "{\"text\":\"a\xFF\\ud83d\\ude00\\ud800\\\\ud800\\udc00x\"}\n{\"text\":\"b\"}");
  folder.write("b.txt", "c\xFF");
  const auto files = input_files({folder.at("*")}, folder.path().string());
  EXPECT_THAT(
      documents_of(files, true),
      ElementsAre("a.jsonl:1: a\xEF\xBF\xBD\xF0\x9F\x98\x80\xEF\xBF\xBD\\ud800\xEF\xBF\xBDx",
                  "a.jsonl:2: b",
                  "b.txt: c\xFF"));
  EXPECT_EQ(error_of([&] {
              documents_of({{folder.write("c.jsonl", "{\"text\":\"\xFF\"}}"), "c.jsonl"}}, true);
            }).substr(0, 17),
            "c.jsonl:1: no JSO");
}

TEST(Documents, NamesOfInput) {
  const TestFolder folder;
  folder.write("b.jsonl", "");
  folder.write("a.jsonl", "");
  folder.write("c.parquet", "");
  folder.write("x*.jsonl", "");
  const auto files = input_files({folder.at("b.jsonl"), folder.at("[a]*")}, "/elsewhere");
  ASSERT_THAT(files, SizeIs(2));
  EXPECT_EQ(files[0].shown, folder.at("b.jsonl"));
  EXPECT_EQ(files[1].path, folder.at("a.jsonl"));
  EXPECT_THAT(input_files({folder.at("x*.jsonl")}, ""), SizeIs(1));
  const auto fails = [&](const std::vector<std::string>& names) {
    return error_of<ConfigError>([&] { input_files(names, ""); });
  };
  EXPECT_THAT(fails({folder.at("d*")}), HasSubstr("input: there is no file "));
  EXPECT_THAT(fails({folder.at("a*"), folder.at("a.jsonl")}), HasSubstr(" is named twice"));
  EXPECT_THAT(fails({folder.at("c*")}), HasSubstr("does not say what is in it: .jsonl, .ndjson"));
  EXPECT_EQ(fails({}), "input: it names no file");
  // However a file is named.
  const std::string link = folder.at("link.jsonl");
  std::filesystem::create_symlink("a.jsonl", link);
  for (const std::string& other : {folder.at("./a.jsonl"), link}) {
    EXPECT_EQ(fails({folder.at("a.jsonl"), other}),
              "input: " + other + " is named twice: " + folder.at("a.jsonl") + " is the same file");
  }
}

TEST(Documents, WhatIsWrittenIsNoInput) {
  const TestFolder folder;
  folder.write("a.jsonl", "");
  folder.write("b.jsonl", "");
  folder.write("x/c.txt", "");
  const std::vector<std::string> own = {folder.at("none.jsonl"), folder.at("x/../a.jsonl")};
  const auto files = input_files({folder.at("*.jsonl")}, "", own);
  ASSERT_THAT(files, SizeIs(1));
  EXPECT_EQ(files[0].path, folder.at("b.jsonl"));
  const auto fails = [&](const std::string& name) {
    return error_of<ConfigError>([&] { input_files({name}, "", own); });
  };
  EXPECT_EQ(fails(folder.at("[a].jsonl")), "input: it names no file but what is written");
  for (const char* name : {"a.jsonl", "./a.jsonl", "x/../a.jsonl"}) {
    EXPECT_EQ(fails(folder.at(name)),
              "output is one of the input files: " + folder.at(name) + " would be replaced");
  }
}

TEST(Documents, CharactersAndUtf8) {
  EXPECT_EQ(characters_of("a\xC3\xA9\xF0\x9F\x98\x80"), 3);
  EXPECT_EQ(first_no_utf8("a\xC3\xA9"), std::nullopt);
  EXPECT_EQ(first_no_utf8("a\xC3\xA9\xC3"), 3);
  EXPECT_EQ(as_utf8("\xC3\xA9\xC3z"), "\xC3\xA9\xEF\xBF\xBDz");
}

}  // namespace documents_test
}  // namespace tessera
