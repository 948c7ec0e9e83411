#include "kernel/checkpoint/safetensors_file.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>

#include "kernel/checkpoint/disk.hpp"
#include "tests/common/error_of.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace safetensors_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<float> kValues = {1, -2, 3.5F, 0, 5, 6};
const std::vector<i64> kSteps = {7, -8};

i64 write_sample(const std::string& file) {
  SafetensorsWriter out(
      file, {{"w[0:2, 3:6]", "fp32", {2, 3}}, {"steps", "i64", {2}}, {"none", "bf16", {0, 4}}});
  out.next([](const ByteSink& sink) {
    sink(std::as_bytes(std::span(kValues).first(2)));
    sink(std::as_bytes(std::span(kValues).subspan(2)));
  });
  out.next([](const ByteSink& sink) { sink(std::as_bytes(std::span(kSteps))); });
  out.next([](const ByteSink&) {});
  return out.finish();
}

// The format as its authors describe it: u64 little endian, JSON, data.
TEST(Safetensors, BytesAsTheFormatSays) {
  const TestFolder folder;
  const i64 size = write_sample(folder.at("a"));
  const std::string file = folder.read("a");
  ASSERT_EQ(static_cast<i64>(file.size()), size);
  std::string header = R"({"w[0:2, 3:6]":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                       R"("steps":{"dtype":"I64","shape":[2],"data_offsets":[24,40]},)"
                       R"("none":{"dtype":"BF16","shape":[0,4],"data_offsets":[40,40]}})";
  while (header.size() % 8 != 0) header += ' ';
  u64 length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(file[i]);
  EXPECT_EQ(length, header.size());
  EXPECT_EQ(file.substr(8, length), header);
  std::string data(40, '\0');
  std::memcpy(data.data(), kValues.data(), 24);
  std::memcpy(data.data() + 24, kSteps.data(), 16);
  EXPECT_EQ(file.substr(8 + length), data);
}

TEST(Safetensors, ReadsWhatItWrote) {
  const TestFolder folder;
  write_sample(folder.at("a"));
  const SafetensorsFile file(folder.at("a"));
  const SafetensorsEntry& entry = file.entry("w[0:2, 3:6]");
  EXPECT_EQ(entry.dtype, "fp32");
  EXPECT_EQ(entry.shape, (std::vector<i64>{2, 3}));
  const std::vector<std::byte> bytes = file.read(entry);
  ASSERT_EQ(bytes.size(), 24U);
  EXPECT_TRUE(std::ranges::equal(bytes, std::as_bytes(std::span(kValues))));
  EXPECT_TRUE(file.read(file.entry("none")).empty());
}

TEST(Safetensors, ReadsMetadataOfOthers) {
  const TestFolder folder;
  const std::string header =
      R"({"__metadata__":{"by":"hand"},"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
  std::string text(8, '\0');
  text[0] = static_cast<char>(header.size());
  folder.write("a", text + header + "abc");
  const SafetensorsFile file(folder.at("a"));
  EXPECT_EQ(file.read(file.entry("x")).size(), 3U);
  EXPECT_EQ(file.entries().size(), 1U);
}

// Reads all of a file; whatever is wrong with it is an Error that names it.
std::string read_all(const std::string& path) {
  return testing::error_of([&] {
    const SafetensorsFile file(path);
    for (const SafetensorsEntry& entry : file.entries()) file.read(entry);
  });
}

TEST(Safetensors, FilesThatWereCutOff) {
  const TestFolder folder;
  write_sample(folder.at("whole"));
  const std::string whole = folder.read("whole");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string path = folder.write("cut", whole.substr(0, size));
    EXPECT_THAT(read_all(path), HasSubstr("cut is damaged: ")) << size;
  }
}

TEST(Safetensors, HeadersWithFlippedBitsNeverCrash) {
  const TestFolder folder;
  write_sample(folder.at("whole"));
  const std::string whole = folder.read("whole");
  int noticed = 0;
  for (std::size_t at = 0; at < whole.size() - 40; ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string bad = whole;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      const std::string text = read_all(folder.write("bad", bad));
      if (text.empty()) continue;
      ++noticed;
      EXPECT_THAT(text, HasSubstr("bad is damaged: "));
    }
  }
  EXPECT_GT(noticed, 200);
}

// Memory is asked for once it is known that the file has so many bytes.
TEST(Safetensors, AHeaderThatClaimsMoreThanTheFileHolds) {
  const TestFolder folder;
  const std::string header =
      R"({"w":{"dtype":"F32","shape":[500000000],"data_offsets":[0,2000000000]}})";
  const u64 length = header.size();
  const std::string begin(reinterpret_cast<const char*>(&length), sizeof length);
  EXPECT_THAT(read_all(folder.write("a", begin + header + std::string(40, 'x'))),
              HasSubstr("a is damaged: tensor \"w\" lies beyond its end"));
}

TEST(Safetensors, AnEntryThatIsDamagedIsNamed) {
  const auto told = [](const std::string& entry) {
    return text_of<Error>([&] { parse_safetensors_header("{\"w\":" + entry + "}", "a"); });
  };
  EXPECT_EQ(told(R"({"dtype":"F32","shape":[2],"data_offsets":[]})"),
            "a is damaged: tensor \"w\": data_offsets is [], which is not a begin and an end");
  EXPECT_EQ(told(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8.5]})"),
            "a is damaged: tensor \"w\": 8.5 is not a whole number of 64 bits");
  EXPECT_EQ(told(R"({"shape":[2],"data_offsets":[0,8]})"),
            "a is damaged: tensor \"w\": key 'dtype' not found");
  EXPECT_EQ(told("1"), "a is damaged: tensor \"w\": it is a JSON number instead of an object");
}

TEST(Safetensors, TextsOfDamage) {
  const TestFolder folder;
  EXPECT_THAT(read_all(folder.at("none")), HasSubstr("none: No such file or directory"));
  EXPECT_THAT(read_all(folder.write("empty", "")), HasSubstr("empty is damaged: it is too short"));
  EXPECT_THAT(read_all(folder.write("long", std::string(20, '\x7f'))),
              HasSubstr("long is damaged: its header is longer than the file"));
  write_sample(folder.at("a"));
  const SafetensorsFile file(folder.at("a"));
  EXPECT_THAT(text_of<Error>([&] { file.entry("v"); }), AllOf(HasSubstr("/a has no tensor \"v\"")));
}

TEST(Safetensors, WrongNumberOfBytesIsRefused) {
  const TestFolder folder;
  EXPECT_THAT(
      text_of<Error>([&] {
        SafetensorsWriter(folder.at("a"), {{"w", "fp32", {3}}}).next([](const ByteSink& sink) {
          sink(std::as_bytes(std::span(kValues)));
        });
      }),
      HasSubstr("a: tensor \"w\" has 24 bytes, expected 12"));
}

TEST(Safetensors, ReadsAPart) {
  const TestFolder folder;
  write_sample(folder.at("a"));
  const SafetensorsFile file(folder.at("a"));
  std::vector<float> two(2);
  file.read(file.entry("w[0:2, 3:6]"), 8, std::as_writable_bytes(std::span(two)));
  EXPECT_EQ(two, (std::vector<float>{3.5F, 0}));
  for (const i64 begin : {-4, 20, 24, 100}) {
    EXPECT_THAT(text_of<Error>([&] {
                  file.read(
                      file.entry("w[0:2, 3:6]"), begin, std::as_writable_bytes(std::span(two)));
                }),
                HasSubstr("are no part of tensor \"w[0:2, 3:6]\""))
        << begin;
  }
}

TEST(Safetensors, AFileWithoutAllItsTensorsIsNotFinished) {
  const TestFolder folder;
  SafetensorsWriter out(folder.at("a"), {{"w", "fp32", {3}}});
  EXPECT_THAT(text_of<Error>([&] { out.finish(); }), HasSubstr("not all tensors are written"));
}

TEST(Safetensors, MetadataForOthers) {
  const TestFolder folder;
  SafetensorsWriter(folder.at("a"), {}, {{"format", "pt"}}).finish();
  EXPECT_EQ(folder.read("a").substr(8), R"({"__metadata__":{"format":"pt"}})");
  EXPECT_TRUE(SafetensorsFile(folder.at("a")).entries().empty());
}

// Somebody who may write into the folder could have put it there.
TEST(Safetensors, ALinkIsNotWrittenThrough) {
  const TestFolder folder;
  folder.write("precious", "words");
  std::filesystem::create_symlink("precious", folder.at("link"));
  for (const auto& write :
       std::vector<std::function<void()>>{[&] { write_sample(folder.at("link")); },
                                          [&] { write_synced(folder.at("link"), ""); }}) {
    EXPECT_THAT(text_of<Error>(write),
                HasSubstr("/link: it is a symbolic link, which is not followed; remove it"));
  }
  EXPECT_EQ(folder.read("precious"), "words");
}

TEST(RenameNew, TakesNoNameFromAnother) {
  const TestFolder folder;
  folder.write("a", "new");
  folder.write("b", "old");
  std::filesystem::create_symlink("nowhere", folder.at("link"));
  std::filesystem::create_directory(folder.at("folder"));
  std::filesystem::create_directory(folder.at("empty"));
  for (const char* there : {"b", "link", "empty"}) {
    EXPECT_FALSE(rename_new(folder.at("a"), folder.at(there))) << there;
    EXPECT_FALSE(rename_new(folder.at("folder"), folder.at(there))) << there;
  }
  EXPECT_EQ(folder.read("b"), "old");
  EXPECT_TRUE(rename_new(folder.at("a"), folder.at("c")));
  EXPECT_EQ(folder.read("c"), "new");
  EXPECT_FALSE(std::filesystem::exists(folder.at("a")));
  EXPECT_TRUE(rename_new(folder.at("folder"), folder.at("d")));
  EXPECT_THAT(text_of<Error>([&] { rename_new(folder.at("a"), folder.at("e")); }),
              HasSubstr("cannot rename "));
}

TEST(FullDisk, IsNamedWithTheFile) {
  EXPECT_EQ(text_of<Error>([] { write_sample("/dev/full"); }),
            "cannot write /dev/full: No space left on device");
  EXPECT_EQ(text_of<Error>([] { write_synced("/dev/full", "text"); }),
            "cannot write /dev/full: No space left on device");
}

TEST(FullDisk, FilesOverTheLimit) {
  const TestFolder folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string text = testing::error_of([&] { write_sample(folder.at("a")); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(text, AllOf(HasSubstr("cannot write "), HasSubstr("/a: File too large")));
}

TEST(Safetensors, FoldersThatDoNotExistAreNamed) {
  EXPECT_EQ(text_of<Error>([] { write_sample("nowhere/a"); }),
            "cannot create nowhere/a: No such file or directory");
  EXPECT_EQ(text_of<Error>([] { write_synced("nowhere/a", ""); }),
            "cannot create nowhere/a: No such file or directory");
}

TEST(SafetensorsHeader, ErrorsQuoteNoBytesThatATerminalCannotShow) {
  const std::string text =
      text_of<Error>([] { parse_safetensors_header("{\"a\xa0\x01\": 1}", "f"); });
  EXPECT_THAT(text, ::testing::HasSubstr("\\xa0"));
  EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; })) << text;
}

}  // namespace safetensors_test
}  // namespace tessera
