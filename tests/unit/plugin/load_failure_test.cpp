// Files that cannot be used, and the exact texts that say so. None of them stops a run.
#include <elf.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cfenv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>
#include <thread>

#include "kernel/plugin/host.hpp"
#include "kernel/plugin/library.hpp"
#include "kernel/plugin/library_file.hpp"
#include "kernel/plugin/load_watch.hpp"
#include "plugin_support.hpp"
#include "tests/common/error_of.hpp"

namespace tessera {
namespace load_failure_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::plugin_file;
using testing::plugin_folder;
using ::testing::StartsWith;
using testing::TestFolder;

// The one failure of a host that searches `folder`, beside a plugin that is in order.
std::string failure_in(const fs::path& folder) {
  const PluginHost host({folder, plugin_folder("good")});
  EXPECT_NE(host.find("tokenizer", "test_letters"), nullptr) << "the other plugin is there";
  EXPECT_EQ(host.plugins().size(), 1U);
  const auto failures = host.load_failures();
  EXPECT_EQ(failures.size(), 1U);
  return failures.empty() ? "no failure" : failures[0];
}

std::string failure_of(const std::string& name) {
  const std::string text = failure_in(plugin_folder(name));
  const std::string path = plugin_file(name).string();
  EXPECT_THAT(text, HasSubstr(path));
  return text.starts_with(path) ? text.substr(path.size()) : text;
}

TEST(LoadFailure, WrongStamp) {
  for (const std::string name : {"wrong_stamp", "wrong_stamp_stripped"}) {
    const std::string text = failure_of(name);
    EXPECT_THAT(text,
                StartsWith(" was built for SDK ABI 0badc0de, this host has " TESSERA_ABI_STAMP
                           "\n  differs in: sdk headers (00c0ffee vs "));
    EXPECT_THAT(text, HasSubstr("), compiler (GNU 4 vs "));
    EXPECT_THAT(text,
                ::testing::EndsWith("), lunar phase (3 vs not given). Rebuild it: cmake --build "
                                    "<plugin build dir>"));
  }
  EXPECT_EQ(std::getenv("TESSERA_TEST_WRONG_STAMP_RAN"), nullptr)
      << "it was loaded before its stamp was compared";
}

TEST(LoadFailure, StampOfTheDescriptorCounts) {
  EXPECT_EQ(failure_of("forged_stamp"),
            " was built for SDK ABI 0badc0de, this host has " TESSERA_ABI_STAMP
            "\n  Rebuild it: cmake --build <plugin build dir>");
}

// What the headers' hash cannot see: flags of one target.
TEST(LoadFailure, CompiledOtherwise) {
  const auto refused = [](const std::string& difference) {
    return " was built with other compiler flags than this tessera\n  differs in: " + difference +
           ". Give it the same compiler and flags, and build it again";
  };
  EXPECT_THAT(failure_of("other_standard"),
              ::testing::MatchesRegex(refused(R"(c\+\+ \(2021..L vs 202002L\))")));
  EXPECT_EQ(failure_of("fast_math"), refused("floating point (-ffast-math vs strict)"));
  EXPECT_EQ(failure_of("reciprocal_math"), refused("floating point (-freciprocal-math vs strict)"));
  EXPECT_EQ(failure_of("single_constants"), refused("floating point (not IEC 559 vs strict)"));
  EXPECT_EQ(failure_of("short_enums"), refused("bytes of an enum (1 vs 4)"));
  EXPECT_EQ(failure_of("ms_bitfields"), refused("bytes of bit-fields (8 vs 4)"));
  EXPECT_EQ(failure_of("packed_structs"), refused("alignment in structs (4 vs 16)"));
  EXPECT_EQ(failure_of("unsigned_char"), refused("char (unsigned vs signed)"));
  EXPECT_EQ(failure_of("without_rtti"), refused("rtti (off vs on)"));
  EXPECT_THAT(failure_of("old_abi"), HasSubstr("differs in: c++ abi (1011 vs 10"));
}

TEST(LoadFailure, AnotherDescriptor) {
  EXPECT_EQ(failure_of("old_descriptor"),
            fmt::format(": its tessera_plugin is not the descriptor of this SDK (0x1234, 16 bytes; "
                        "expected 0x3150415245535354, {} bytes): define it with TESSERA_PLUGIN",
                        sizeof(PluginDescriptor)));
}

TEST(LoadFailure, NotAPlugin) {
  const fs::path file = plugin_folder("plain") / "libtest_plain.so";
  EXPECT_EQ(failure_in(plugin_folder("plain")),
            file.string() +
                ": is a shared library, but not a Tessera plugin (it exports no tessera_plugin)");
}

TEST(LoadFailure, MissingDependency) {
  EXPECT_EQ(failure_of("missing_dependency"),
            ": needs libtest_absent.so, which was not found (ldd " +
                plugin_file("missing_dependency").string() + ")");
}

TEST(LoadFailure, UndefinedSymbol) {
  EXPECT_EQ(failure_of("undefined_symbol"),
            ": needs tessera::function_of_an_older_sdk(int), which no library defines; rebuild it "
            "against this SDK");
}

TEST(LoadFailure, ThrowsInRegistration) {
  const std::string where = " of plugin test_registration 0.1 (";
  EXPECT_EQ(
      failure_of("throws"),
      "no licence found\n  in the registration" + where + plugin_file("throws").string() + ")");
  EXPECT_EQ(failure_of("throws_foreign"),
            "an exception that is not a std::exception\n  in the registration" + where +
                plugin_file("throws_foreign").string() + ")");
  const PluginHost host({plugin_folder("throws")});
  EXPECT_EQ(host.find("tokenizer", "test_before"), nullptr) << "all of a plugin or nothing";
}

TEST(LoadFailure, RegistersOneNameTwice) {
  EXPECT_THAT(failure_of("twice"),
              StartsWith("tokenizer/test_twice is registered twice\n  in the "
                         "registration of plugin test_registration 0.1"));
}

TEST(LoadFailure, RegistersABadName) {
  EXPECT_THAT(
      failure_of("bad_name"),
      StartsWith("\"Test Letters\" is not a valid name for a tokenizer: use a-z, 0-9 and _\n"));
}

TEST(LoadFailure, RegistersWithoutDescription) {
  EXPECT_THAT(failure_of("undescribed"), StartsWith("tokenizer/test_letters has no description\n"));
}

class OddFile : public ::testing::Test {
 protected:
  std::string failure() { return failure_in(folder_.path()); }
  TestFolder folder_;
  fs::path file_ = folder_.path() / "libodd.so";
};

TEST_F(OddFile, Text) {
  std::ofstream(file_) << "just text";
  EXPECT_EQ(failure(), file_.string() + ": is not a shared library (not an ELF file)");
}

TEST_F(OddFile, Empty) {
  std::ofstream(file_).flush();
  EXPECT_EQ(failure(), file_.string() + ": is not a shared library (not an ELF file)");
}

TEST_F(OddFile, Folder) {
  fs::create_directory(file_);
  EXPECT_EQ(failure(), file_.string() + ": is not a regular file");
}

TEST_F(OddFile, LinkToNothing) {
  fs::create_symlink("nowhere", file_);
  EXPECT_EQ(failure(), file_.string() + ": is a link to a file that does not exist");
}

TEST_F(OddFile, Unreadable) {
  if (geteuid() == 0) GTEST_SKIP() << "root reads every file";
  fs::copy_file(plugin_file("stripped"), file_);
  fs::permissions(file_, fs::perms::none);
  EXPECT_EQ(failure(), file_.string() + ": cannot be read (Permission denied)");
}

TEST_F(OddFile, Program) {
  fs::copy_file("/proc/self/exe", file_);
  EXPECT_THAT(failure(), StartsWith(file_.string() + ": is a"));
}

TEST_F(OddFile, OtherMachine) {
  std::ofstream out(file_, std::ios::binary);
  std::string header(64, '\0');
  header.replace(0,
                 5,
                 "\x7f"
                 "ELF\x01");  // 32 bit
  header[16] = 3;
  header[18] = 3;  // 386
  out << header;
  out.close();
  EXPECT_EQ(failure(),
            file_.string() + ": is a library for another kind of machine (ELF machine 3, 32 bit)");
}

// The system's loader would end the process (SIGBUS): a copy on a full disk must not do that.
TEST_F(OddFile, CutOffOrDamaged) {
  std::ifstream in(plugin_file("stripped"), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  ASSERT_GT(whole.size(), 8192U);
  const auto damaged = [&](const std::string& bytes) {
    std::ofstream(file_, std::ios::binary) << bytes;
    std::string text = failure();
    fs::remove(file_);
    return text;
  };
  EXPECT_EQ(damaged(whole.substr(0, 63)),
            file_.string() + ": is not a shared library (not an ELF file)");
  for (const std::size_t size : {std::size_t{64}, std::size_t{4096}, whole.size() - 1}) {
    EXPECT_EQ(damaged(whole.substr(0, size)),
              fmt::format("{}: is cut off or damaged: its {} bytes are less than its headers say; "
                          "build or copy it again",
                          file_.string(),
                          size));
  }
  for (const std::size_t at : {32U, 40U, 56U, 60U}) {  // offsets and counts of the header's tables
    std::string bytes = whole;
    bytes.replace(at, 2, "\xff\xff");
    bytes.replace(at == 32 || at == 40 ? at + 4 : at, 2, "\xff\xff");
    EXPECT_THAT(damaged(bytes), StartsWith(file_.string() + ": is cut off or damaged")) << at;
  }
}

// It takes no room on the disk, and would take as much memory as it claims.
TEST_F(OddFile, Huge) {
  fs::copy_file(plugin_file("stripped"), file_);
  fs::resize_file(file_, std::uintmax_t{10} << 30);
  EXPECT_EQ(failure(),
            file_.string() +
                ": has 10.0 GiB, and a plugin has at most 1.00 GiB: link it without "
                "debug information (strip -g)");
  std::ofstream(file_) << "text";
  fs::resize_file(file_, std::uintmax_t{10} << 30);
  EXPECT_EQ(failure(), file_.string() + ": is not a shared library (not an ELF file)");
}

// Sections that all say that they are the table of the same symbols.
TEST_F(OddFile, ManyTables) {
  std::ifstream in(plugin_file("stripped"), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::string table;
  for (int i = 0; i < header.e_shnum; ++i) {
    const std::string section = bytes.substr(
        header.e_shoff + static_cast<std::size_t>(i) * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr));
    Elf64_Shdr fields;
    std::memcpy(&fields, section.data(), sizeof fields);
    if (fields.sh_type == SHT_DYNSYM) table = section;
  }
  header.e_shoff = bytes.size();
  header.e_shnum = 50000;
  for (int i = 0; i < header.e_shnum; ++i) bytes += table;
  std::memcpy(bytes.data(), &header, sizeof header);
  std::ofstream(file_, std::ios::binary) << bytes;
  EXPECT_LE(read_library_file(file_).symbols.size(), 1000U);
}

// The file is read piece by piece; the text may lie across the end of one.
TEST_F(OddFile, WithTheFieldsOfItsBuildAnywhere) {
  std::ifstream in(plugin_folder("plain") / "libtest_plain.so", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const std::string fields = "sdk headers=1;compiler=" + std::string(100, 'x');
  std::set<u64> hashes;
  for (std::size_t at = 2 * 65536 - 160; at < 2 * 65536 + 20; ++at) {
    std::string bytes = whole;
    bytes.resize(at, '\x01');
    std::ofstream(file_, std::ios::binary) << bytes << fields << '\0' << "more";
    const LibraryFile file = read_library_file(file_);
    EXPECT_EQ(file.abi_fields, fields) << at;
    hashes.insert(file.hash);
  }
  EXPECT_EQ(hashes.size(), 180U);
  fs::copy_file(plugin_file("good"), file_, fs::copy_options::overwrite_existing);
  EXPECT_EQ(read_library_file(file_).hash, read_library_file(plugin_file("good")).hash);
}

TEST(LoadLibrary, FloatingPointStaysAsItIs) {
  volatile float smallest = std::numeric_limits<float>::min();
  ::testing::internal::CaptureStderr();
  const PluginHost host({plugin_folder("denormals")});
  const std::string warned = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  EXPECT_GT(smallest / 4, 0) << "denormal numbers are flushed";
  EXPECT_THAT(host.load_failures(), ::testing::IsEmpty());
  EXPECT_NE(host.find("tokenizer", "test_letters"), nullptr);
#if defined(__x86_64__)
  EXPECT_THAT(warned,
              HasSubstr(plugin_file("denormals").string() +
                        ": switched denormal numbers off while it was loaded"));
#else
  EXPECT_THAT(warned, HasSubstr(plugin_file("denormals").string() + ": changed how"));
#endif
}

TEST(LoadWatch, ALibraryThatDoesNotComeBackIsNamed) {
  ::testing::internal::CaptureStderr();
  {
    const LoadWatch slow("/somewhere/libslow.so", std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  { const LoadWatch fast("/somewhere/libfast.so", std::chrono::milliseconds(500)); }
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::AllOf(HasSubstr("/somewhere/libslow.so: its static constructors or its "
                                         "registration have been running for 0.001 s"),
                               ::testing::Not(HasSubstr("libfast"))));
}

TEST(LoadLibrary, NoSuchFile) {
  EXPECT_EQ(testing::error_of([&] { load_library("/nonexistent/libx.so"); }),
            "/nonexistent/libx.so: there is no such file");
}

}  // namespace load_failure_test
}  // namespace tessera
