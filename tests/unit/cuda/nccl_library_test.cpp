// The loader of NCCL, and what we declare of it against the vendor's header and library, where they
// are installed (NCCL_HOME, or the system's places).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <regex>

#include "plugins/communicators/nccl/library.hpp"
#include "plugins/communicators/nccl/settings.hpp"
#include "tests/common/error_of.hpp"
#include "tests/common/test_folder.hpp"

namespace tessera {
namespace nccl_library_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<fs::path> roots() {
  std::vector<fs::path> found;
  if (const char* home = std::getenv("NCCL_HOME")) found.emplace_back(home);
  found.emplace_back("/usr");
  found.emplace_back("/usr/local/cuda");
  return found;
}

std::string header() {
  for (const fs::path& root : roots()) {
    if (fs::exists(root / "include" / "nccl.h")) {
      return testing::read_file(root / "include" / "nccl.h");
    }
  }
  return {};
}

TEST(NcclLibrary, SaysWhatWasSearched) {
  EXPECT_THAT(
      testing::error_of([] { nccl::load({"libnccl.so.none"}, {"/nowhere"}); }),
      AllOf(HasSubstr("NCCL is not found, by which the communicator \"nccl\" joins GPUs: put "
                      "the folder of libnccl.so.none into LD_LIBRARY_PATH"),
            HasSubstr("\n  libnccl.so.none: cannot open shared object file"),
            HasSubstr("\n  /nowhere/libnccl.so.none: cannot open")));
}

TEST(NcclLibrary, NamesAMissingFunction) {
  EXPECT_THAT(testing::error_of([] { nccl::load({"libm.so.6"}, {}); }),
              HasSubstr("NCCL has no function ncclGetVersion: "));
}

TEST(NcclLibrary, IsNotTooOld) {
  nccl::Library old{};
  old.version = [](int* version) {
    *version = 22507;
    return 0;
  };
  EXPECT_THAT(testing::error_of([&] { nccl::require_version(old); }),
              AllOf(HasSubstr("needs NCCL 2.26.0 or later, and "),
                    HasSubstr(" is 2.25.7: install a newer")));
}

TEST(NcclSettings, LittleSharedMemoryIsTold) {
  EXPECT_THAT(
      nccl::shared_memory_warning(i64{64} << 20),
      ::testing::StartsWith("/dev/shm has 64.0 MiB, and NCCL takes some for each pair of "));
  EXPECT_EQ(nccl::shared_memory_warning(i64{1} << 30), "");
}

TEST(NcclLibrary, HasTheVendorsConstants) {
  const std::string text = header();
  if (text.empty()) GTEST_SKIP() << "no nccl.h here";
  const std::pair<const char*, int> constants[] = {{"ncclSuccess", nccl::kSuccess},
                                                   {"ncclInternalError", nccl::kInternalError},
                                                   {"ncclInvalidUsage", nccl::kInvalidUsage},
                                                   {"ncclRemoteError", nccl::kRemoteError},
                                                   {"ncclInProgress", nccl::kInProgress},
                                                   {"ncclUint8", nccl::kU8},
                                                   {"ncclInt32", nccl::kI32},
                                                   {"ncclInt64", nccl::kI64},
                                                   {"ncclFloat16", nccl::kFp16},
                                                   {"ncclFloat32", nccl::kFp32},
                                                   {"ncclFloat64", nccl::kFp64},
                                                   {"ncclBfloat16", nccl::kBf16},
                                                   {"ncclSum", nccl::kSum},
                                                   {"ncclMax", nccl::kMax},
                                                   {"ncclMin", nccl::kMin}};
  for (const auto& [name, value] : constants) {
    std::smatch found;
    const std::regex declaration(std::string(name) + R"(\s*=\s*(\d+))");
    ASSERT_TRUE(std::regex_search(text, found, declaration)) << name;
    EXPECT_EQ(std::stoi(found[1]), value) << name;
  }
  EXPECT_NE(text.find("#define NCCL_UNIQUE_ID_BYTES 128"), std::string::npos);
  EXPECT_NE(text.find("0xcafebeef"), std::string::npos);
  // The members of its configuration that ours begins with.
  const std::size_t begin = text.find("typedef struct ncclConfig_");
  ASSERT_NE(begin, std::string::npos);
  const std::string members = text.substr(begin, text.find('}', begin) - begin);
  std::size_t at = 0;
  for (const char* member : {"size_t size;",
                             "unsigned int magic;",
                             "unsigned int version;",
                             "int blocking;",
                             "int cgaClusterSize;",
                             "int minCTAs;",
                             "int maxCTAs;",
                             "const char *netName;"}) {
    at = members.find(member, at);
    ASSERT_NE(at, std::string::npos) << member << " in " << members;
  }
  static_assert(sizeof(nccl::Config) == 40);
}

TEST(NcclLibrary, OfTheVendorHasOurFunctions) {
  std::vector<std::string> folders;
  for (const fs::path& root : roots()) folders.push_back(root / "lib");
  std::optional<nccl::Library> library;
  try {
    library = nccl::load({"libnccl.so.2"}, folders);
  } catch (const ConfigError& error) {
    GTEST_SKIP() << "no NCCL here: " << error.what();
  }
  EXPECT_THAT(library->name(), ::testing::StartsWith("NCCL 2."));
  EXPECT_STREQ(library->error_text(nccl::kSuccess), "no error");
}

}  // namespace nccl_library_test
}  // namespace tessera
