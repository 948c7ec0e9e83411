// The loader of cuBLASLt, and what we declare of it against the vendor's headers and library, where
// they are installed.
#include "plugins/devices/cuda/cublaslt.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <regex>

#include "tessera/error.hpp"
#include "tests/common/test_folder.hpp"

namespace tessera {
namespace cublaslt_test {

namespace fs = std::filesystem;
namespace lt = cuda::lt;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of_load(const std::vector<std::string>& sonames,
                          const std::vector<std::string>& folders) {
  try {
    lt::load(sonames, folders);
  } catch (const Error& error) {
    return fmt::format("{}: {}", error.exit_code(), error.what());
  }
  return "none";
}

/// The toolkit's folder include that has cublasLt.h.
std::optional<fs::path> headers() {
  std::vector<fs::path> roots;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* value = std::getenv(name)) roots.emplace_back(value);
  }
  roots.emplace_back("/usr/local/cuda");
  for (const fs::path& root : roots) {
    if (fs::exists(root / "include" / "cublasLt.h")) return root / "include";
  }
  return std::nullopt;
}

/// The vendor's library beside its headers, or where the system's loader looks.
std::optional<lt::Library> vendors_library() {
  std::vector<std::string> folders;
  if (const auto include = headers()) {
    for (const char* name : {"lib64", "lib"}) folders.push_back(include->parent_path() / name);
  }
  try {
    return lt::load({"libcublasLt.so.13", "libcublasLt.so.12"}, folders);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

TEST(CublasLt, SaysWhatWasSearched) {
  EXPECT_THAT(
      error_of_load({"libcublasLt.so.none", "libcublasLt.so.never"}, {"/nowhere"}),
      AllOf(HasSubstr("2: cuBLASLt is not found, by which the device \"cuda\" multiplies matrices"),
            HasSubstr("\n  libcublasLt.so.none: cannot open shared object file"),
            HasSubstr("\n  /nowhere/libcublasLt.so.none: cannot open"),
            HasSubstr("\n  libcublasLt.so.never: cannot open"),
            HasSubstr("\n  /nowhere/libcublasLt.so.never: cannot open"),
            HasSubstr("LD_LIBRARY_PATH")));
}

TEST(CublasLt, NamesAMissingFunction) {
  EXPECT_THAT(error_of_load({"libm.so.6"}, {}),
              HasSubstr("1: cuBLASLt has no function cublasLtGetVersion: "));
}

TEST(CublasLt, HasTheVendorsConstants) {
  const auto include = headers();
  if (!include) GTEST_SKIP() << "no cublasLt.h here";
  const std::string text = testing::read_file(*include / "cublasLt.h") +
                           testing::read_file(*include / "cublas_api.h") +
                           testing::read_file(*include / "library_types.h");
  const std::pair<const char*, int> constants[] = {
      {"CUBLAS_STATUS_SUCCESS", lt::kSuccess},
      {"CUBLAS_STATUS_NOT_INITIALIZED", lt::kNotInitialized},
      {"CUBLAS_STATUS_INVALID_VALUE", lt::kInvalidValue},
      {"CUBLAS_STATUS_EXECUTION_FAILED", lt::kExecutionFailed},
      {"CUBLAS_STATUS_NOT_SUPPORTED", lt::kNotSupported},
      {"CUDA_R_32F", lt::kFp32},
      {"CUDA_R_64F", lt::kFp64},
      {"CUDA_R_16F", lt::kFp16},
      {"CUDA_R_16BF", lt::kBf16},
      {"CUBLAS_COMPUTE_32F", lt::kCompute32},
      {"CUBLAS_COMPUTE_64F", lt::kCompute64},
      {"CUBLAS_COMPUTE_32F_FAST_TF32", lt::kCompute32ByTf32},
      {"CUBLAS_OP_N", lt::kAsIs},
      {"CUBLAS_OP_T", lt::kTransposed},
      {"CUBLASLT_EPILOGUE_DEFAULT", lt::kPlain},
      {"CUBLASLT_EPILOGUE_BIAS", lt::kBias},
      {"CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE", lt::kReductionByComputeType},
      {"CUBLASLT_MATMUL_DESC_TRANSA", lt::kTransposeA},
      {"CUBLASLT_MATMUL_DESC_TRANSB", lt::kTransposeB},
      {"CUBLASLT_MATMUL_DESC_EPILOGUE", lt::kEpilogue},
      {"CUBLASLT_MATMUL_DESC_BIAS_POINTER", lt::kBiasAddress},
      {"CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES", lt::kMostWorkspace},
      {"CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK", lt::kReductions},
      {"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES", lt::kAlignmentA},
      {"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES", lt::kAlignmentB},
      {"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES", lt::kAlignmentC},
      {"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES", lt::kAlignmentD}};
  for (const auto& [name, value] : constants) {
    std::smatch found;
    const std::regex declaration(std::string(name) + R"(\s*=\s*(\d+))");
    ASSERT_TRUE(std::regex_search(text, found, declaration)) << name;
    EXPECT_EQ(std::stoi(found[1]), value) << name;
  }
  const std::regex algorithm(R"(uint64_t data\[8\];\s*\} cublasLtMatmulAlgo_t;)");
  EXPECT_TRUE(std::regex_search(text, algorithm));
  static_assert(sizeof(lt::Algorithm) == 64);
  // The members of a choice, in their order, with comments between.
  const std::size_t begin = text.find("cublasLtMatmulAlgo_t algo;");
  ASSERT_NE(begin, std::string::npos);
  const std::string members = text.substr(begin, text.find('}', begin) - begin);
  std::size_t at = 0;
  for (const char* member : {"algo;",
                             "size_t workspaceSize;",
                             "cublasStatus_t state;",
                             "float wavesCount;",
                             "int reserved[4];"}) {
    at = members.find(member, at);
    ASSERT_NE(at, std::string::npos) << member << " in " << members;
  }
  static_assert(sizeof(lt::Choice) == 64 + 8 + 4 + 4 + 16);
}

/// Descriptors need no GPU: the library checks attributes and their sizes when they are set.
TEST(CublasLt, TheVendorsLibraryTakesOurAttributes) {
  const auto library = vendors_library();
  if (!library) GTEST_SKIP() << "no cuBLASLt here";
  EXPECT_THAT(library->name(), ::testing::StartsWith("cuBLASLt 1"));
  EXPECT_STREQ(library->status_name(lt::kNotSupported), "CUBLAS_STATUS_NOT_SUPPORTED");

  lt::Product* product = nullptr;
  ASSERT_EQ(library->product_create(&product, lt::kCompute32, lt::kFp32), lt::kSuccess);
  const std::int32_t transposed = lt::kTransposed;
  const std::uint32_t epilogue = lt::kBias;
  const void* bias = &epilogue;
  const auto set = [&](int attribute, const auto& value) {
    return library->product_set(product, attribute, &value, sizeof value);
  };
  EXPECT_EQ(set(lt::kTransposeA, transposed), lt::kSuccess);
  EXPECT_EQ(set(lt::kTransposeB, transposed), lt::kSuccess);
  EXPECT_EQ(set(lt::kEpilogue, epilogue), lt::kSuccess);
  EXPECT_EQ(set(lt::kBiasAddress, bias), lt::kSuccess);
  EXPECT_EQ(set(lt::kTransposeA, bias), lt::kInvalidValue) << "of another size";
  EXPECT_EQ(library->product_destroy(product), lt::kSuccess);

  lt::Layout* layout = nullptr;
  ASSERT_EQ(library->layout_create(&layout, lt::kBf16, 3, 4, 5), lt::kSuccess);
  EXPECT_EQ(library->layout_destroy(layout), lt::kSuccess);

  lt::Preference* preference = nullptr;
  ASSERT_EQ(library->preference_create(&preference), lt::kSuccess);
  const std::uint64_t bytes = 1 << 20;
  const std::uint32_t reductions = lt::kReductionByComputeType, alignment = 16;
  const auto prefer = [&](int attribute, const auto& value) {
    return library->preference_set(preference, attribute, &value, sizeof value);
  };
  EXPECT_EQ(prefer(lt::kMostWorkspace, bytes), lt::kSuccess);
  EXPECT_EQ(prefer(lt::kReductions, reductions), lt::kSuccess);
  for (const int of : {lt::kAlignmentA, lt::kAlignmentB, lt::kAlignmentC, lt::kAlignmentD}) {
    EXPECT_EQ(prefer(of, alignment), lt::kSuccess);
  }
  EXPECT_EQ(library->preference_destroy(preference), lt::kSuccess);
}

}  // namespace cublaslt_test
}  // namespace tessera
