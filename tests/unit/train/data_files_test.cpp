// Files that change while a run reads them.
#include "kernel/train/data/data_files.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "kernel/train/data/sample_reader.hpp"
#include "tessera/error.hpp"
#include "tests/common/error_of.hpp"
#include "tests/common/test_folder.hpp"

namespace tessera {
namespace data_files_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TestFolder;

void set_time(const std::string& path, timespec time) {
  const timespec times[] = {time, time};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST(DataFile, HoldsTheBytesOfTheFile) {
  const TestFolder folder;
  const DataFile file(folder.write("a.txt", "some text"));
  EXPECT_EQ(file.text(), "some text");
  EXPECT_EQ(file.change(), "");
  const DataFile empty(folder.write("b.txt", ""));
  EXPECT_EQ(empty.text(), "");
  EXPECT_EQ(empty.change(), "");
}

TEST(DataFile, SaysWhyItCannotBeRead) {
  const TestFolder folder;
  EXPECT_THAT(error_of([&] { DataFile(folder.at("gone"), "data.table"); }),
              AllOf(StartsWith("data.table: cannot read \""), HasSubstr("gone\": No such file")));
  EXPECT_THAT(error_of([&] { DataFile(folder.path()); }),
              AllOf(StartsWith("data.path: \""), HasSubstr("\" is no regular file")));
}

TEST(DataFile, NoticesEachKindOfChange) {
  const TestFolder folder;
  const auto change_after = [&](const std::function<void(const std::string&)>& change) {
    const std::string path = folder.write("a.txt", "0123456789");
    set_time(path, {1000000000, 5});
    const DataFile file(path);
    EXPECT_EQ(file.change(), "");
    change(path);
    return file.change();
  };
  EXPECT_EQ(change_after([](const auto& path) { fs::resize_file(path, 3); }),
            "it had 10 bytes and has 3");
  EXPECT_EQ(change_after([&](const auto&) { folder.write("a.txt", "abcdefghij"); }),
            "it was written to");
  EXPECT_EQ(change_after([](const auto& path) {
              set_time(path, {1000000000, 6});
            }),
            "it was written to");
  EXPECT_EQ(change_after([&](const auto& path) {
              const std::string other = folder.write("b.txt", "0123456789");
              set_time(other, {1000000000, 5});
              fs::rename(other, path);
            }),
            "another file has its name");
  EXPECT_EQ(change_after([](const auto& path) { fs::remove(path); }),
            "it cannot be found any more (No such file or directory)");
  EXPECT_EQ(change_after([](const auto& path) { fs::permissions(path, fs::perms::owner_read); }),
            "");
}

// The system keeps a time that nobody can put back, which moves with names and rights as well.
TEST(DataFile, NoticesWhatWasWrittenWhereItsTimeWasPutBack) {
  const TestFolder folder;
  const timespec time{1000000000, 5};
  for (const std::size_t size : {std::size_t{1}, std::size_t{65536}, std::size_t{3000001}}) {
    const std::string path = folder.write("a.txt", std::string(size, 'a'));
    set_time(path, time);
    const DataFile file(path);
    const auto change_after_writing = [&](std::size_t at, const std::string& text) {
      std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
      out.seekp(static_cast<std::streamoff>(at));
      out << text;
      out.close();
      set_time(path, time);
      return file.change();
    };
    EXPECT_EQ(change_after_writing(0, std::string(size, 'a')), "") << "the same again";
    for (const std::size_t at : {std::size_t{0}, size - 1}) {
      EXPECT_EQ(change_after_writing(at, "b"), "it was written to, and its time was put back");
      EXPECT_EQ(change_after_writing(at, "a"), "") << "and the contents as well";
    }
    EXPECT_EQ(change_after_writing(size / 3, std::string(size / 3, 'b')) == "", size == 1);
    fs::remove(path);
  }
}

TEST(DataFile, AnAddressTellsItsFileWhileThatIsOpen) {
  const TestFolder folder;
  const std::string path = folder.write("a.txt", "0123456789");
  const char* address = nullptr;
  {
    DataFile first(path);
    const DataFile other(folder.write("b.txt", "abc"));
    const DataFile file(std::move(first));
    address = file.text().data();
    EXPECT_STREQ(DataFile::mapped_at(address), path.c_str());
    EXPECT_STREQ(DataFile::mapped_at(address + 9), path.c_str());
    EXPECT_EQ(DataFile::mapped_at(address + 10), nullptr);
    EXPECT_STREQ(DataFile::mapped_at(other.text().data()), folder.at("b.txt").c_str());
  }
  EXPECT_EQ(DataFile::mapped_at(address), nullptr);
}

/// Reads its file with calls that fail where it was cut short.
class OfFile final : public Dataset {
 public:
  explicit OfFile(const std::string& path) : file_(path) {}
  std::vector<FieldInfo> do_fields() const override { return {{"tokens", DType::i64, ""}}; }
  i64 do_size(SampleSet) const override { return 10; }
  void do_read(SampleSet, i64, const SampleBuffers&) const override { fail("the read failed"); }
  std::string do_fingerprint() const override { return ""; }
  std::vector<const DataFile*> do_files() const override { return {&file_}; }

 private:
  DataFile file_;
};

TEST(DataFiles, AReadThatFailsTellsTheFileThatChanged) {
  const TestFolder folder;
  const std::string path = folder.write("a.txt", "0123456789");
  const OfFile dataset(path);
  const Mesh mesh(RankGenerator({.world = 1}), 0);
  ModelParts parts(mesh);
  parts.slot("tokens");
  const SampleReader reader(dataset, parts, {1, 4}, mesh);
  std::vector<std::byte> memory(static_cast<std::size_t>(reader.microbatch_bytes()));
  const auto read = [&] {
    std::vector<i64> weights(static_cast<std::size_t>(reader.losses()));
    reader.read(SampleSet::train, 0, 1, 0, 1, memory.data(), weights);
  };
  EXPECT_EQ(error_of(read), "the read failed");
  fs::resize_file(path, 3);
  EXPECT_EQ(error_of(read),
            "the file " + path +
                " changed while it was trained on: it had 10 bytes and has 3. Put it back as it "
                "was and start again, which goes on from the newest checkpoint; a run on other "
                "data needs another run.out");
}

}  // namespace data_files_test
}  // namespace tessera
