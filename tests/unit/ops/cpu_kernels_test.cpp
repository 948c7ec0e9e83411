// What conformance_test.cpp does not ask of the cpu device: every instruction set that this
// processor has, and the same bits under any number of threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "tessera/core_ops.hpp"
#include "tessera/testing/core_op_cases.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera {
namespace cpu_kernels_test {

using testing::OpCase;

/// The cpu device that an environment variable asks for; nullptr where the processor lacks it.
std::shared_ptr<Device> cpu_device(const char* variable,
                                   const std::string& value,
                                   const char* lacking) {
  const char* before = std::getenv(variable);
  const std::optional<std::string> kept =
      before != nullptr ? std::optional<std::string>(before) : std::nullopt;
  setenv(variable, value.c_str(), 1);
  std::shared_ptr<Device> device;
  std::string error;
  try {
    device = test_device("cpu");
  } catch (const Error& caught) {
    error = caught.what();
  }
  if (kept) {
    setenv(variable, kept->c_str(), 1);
  } else {
    unsetenv(variable);
  }
  if (!error.empty() && error.find(lacking) == std::string::npos) throw Error(error);
  return device;
}

std::shared_ptr<Device> cpu_device(const std::string& isa) {
  return cpu_device("TESSERA_CPU_ISA", isa, "this processor has no");
}

class CpuInstructionSet : public ::testing::TestWithParam<const char*> {};

TEST_P(CpuInstructionSet, AgreesWithReferenceUnderAnyThreads) {
  const auto device = cpu_device(GetParam());
  if (device == nullptr) GTEST_SKIP() << "this processor has no " << GetParam();
  const auto reference = test_device("reference");
  int cases = 0;
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (OpCase& op : testing::core_op_cases(dtype)) {
      const bool product =
          op.operation == MatmulArgs::kName || op.operation == LinearWeightArgs::kName;
      const bool onednn = std::string_view(GetParam()).starts_with("avx512");
      if (product && dtype == DType::fp32 && onednn) continue;  // the same for both
      op.options.any_threads = true;
      EXPECT_EQ(testing::op_check(*device, *reference, op), "");
      ++cases;
    }
  }
  EXPECT_GT(cases, 100);
}

INSTANTIATE_TEST_SUITE_P(All,
                         CpuInstructionSet,
                         ::testing::Values("baseline", "avx2", "avx512", "avx512_bf16"),
                         [](const auto& info) { return std::string(info.param); });

TEST(CpuInstructionSets, UnknownNameIsAnError) {
  try {
    cpu_device("sse9");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                ::testing::StartsWith("TESSERA_CPU_ISA=sse9: known are baseline, avx2, avx512 "
                                      "and avx512_bf16"));
  }
}

// Code that two instruction sets share would be taken from either by the linker, and stop with an
// illegal instruction on the older processors only.
TEST(CpuInstructionSets, ShareNoCode) {
  const std::filesystem::path folder =
      std::filesystem::path(TESSERA_BUILD_DIR) / "plugins/devices/cpu/CMakeFiles";
  int objects = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".o") || path.find("/simd/") == std::string::npos) continue;
    ++objects;
    FILE* lines = popen(("nm --defined-only '" + path + "'").c_str(), "r");
    ASSERT_NE(lines, nullptr);
    std::array<char, 4096> line{};
    while (std::fgets(line.data(), static_cast<int>(line.size()), lines) != nullptr) {
      const std::string text = line.data();
      EXPECT_EQ(text.find(" W "), std::string::npos) << path << ": " << text;
    }
    EXPECT_EQ(pclose(lines), 0);
  }
  EXPECT_GT(objects, 0);
}

struct Product {
  i64 m, n, k;
  bool transpose_a, transpose_b, accumulate;
};

// Gradients are summed and updated in fp32: another dtype would be read as fp32.
TEST(CpuKernels, RefuseNarrowGradients) {
  const auto device = test_device("cpu");
  const auto reference = test_device("reference");
  using testing::Operand;
  const Operand x = Operand::random({8}, DType::bf16, 1);
  std::array<std::byte, 16> memory{};
  const TensorArg narrow{
      .address = memory.data(), .dtype = DType::bf16, .rank = 1, .shape = {8}, .strides = {1}};
  SumSquaresArgs squares;
  squares.x = narrow;
  EXPECT_THROW(check_types(*device->find(SumSquaresArgs::kName), &squares, "cpu"), Error);
  BlockSquaresArgs blocks;
  blocks.x = narrow;
  EXPECT_THROW(check_types(*device->find(BlockSquaresArgs::kName), &blocks, "cpu"), Error);
  const Operand ranges = Operand::given({1, 4}, DType::i64, {8, 0, 0, 0});
  const Operand scalars =
      Operand::given({step_scalar::kCount},
                     DType::fp64,
                     std::vector<double>(static_cast<std::size_t>(step_scalar::kCount), 0));
  const auto sgd = testing::op_case("x",
                                    SgdArgs{},
                                    {scalars,
                                     ranges,
                                     Operand::given({1, 2}, DType::fp64, {1, 0}),
                                     x,
                                     x,
                                     Operand::absent(),
                                     Operand::absent()});
  EXPECT_THROW(testing::op_check(*device, *reference, sgd), Error);
}

void expect_products_of(Device& device, DType dtype) {
  const auto reference = test_device("reference");
  for (const OpCase& op : testing::core_op_cases(dtype)) {
    if (op.operation != MatmulArgs::kName && op.operation != LinearWeightArgs::kName) continue;
    EXPECT_EQ(testing::op_check(device, *reference, op), "");
  }
}

// On processors with AMX bf16 is oneDNN's.
TEST(CpuMatmul, OneDnnAgreesWithReferenceInBf16) {
  const auto device = cpu_device("TESSERA_CPU_BF16", "onednn", "with AVX-512 only");
  if (device == nullptr) GTEST_SKIP() << "oneDNN multiplies bf16 with AVX-512 only";
  expect_products_of(*device, DType::bf16);
}

// Without AVX-512 fp32 is that of our tiles, with it oneDNN's.
TEST(CpuMatmul, BothLibrariesAgreeWithReferenceInFp32) {
  for (const std::string library : {"onednn", "tiles"}) {
    SCOPED_TRACE(library);
    expect_products_of(*cpu_device("TESSERA_CPU_FP32", library, "nothing"), DType::fp32);
  }
}

TEST(CpuMatmul, UnknownLibraryIsAnError) {
  EXPECT_THROW(cpu_device("TESSERA_CPU_BF16", "mkl", "nothing"), Error);
  EXPECT_THROW(cpu_device("TESSERA_CPU_FP32", "mkl", "nothing"), Error);
}

/// `deepest`: of the inner dimensions of fp32.
void expect_same_bits_under_any_threads(Device& device, i64 deepest) {
  const auto reference = test_device("reference");
  // Large enough that there is something to cut, also along the inner dimension.
  const Product products[] = {{512, 384, 384, false, true, false},
                              {512, 384, 256, false, false, false},
                              {96, 64, 1024, true, false, true},
                              {384, 384, 512, true, false, true},
                              {50, 49, 9001, false, false, false},
                              {50, 49, 9001, true, true, true}};
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const Product& p : products) {
      if (dtype == DType::fp32 && p.k > deepest) continue;
      MatmulArgs args;
      args.transpose_a = p.transpose_a;
      args.transpose_b = p.transpose_b;
      args.accumulate = p.accumulate;
      const Shape a = p.transpose_a ? Shape{p.k, p.m} : Shape{p.m, p.k};
      const Shape b = p.transpose_b ? Shape{p.n, p.k} : Shape{p.k, p.n};
      using testing::Operand;
      OpCase op = testing::op_case(
          fmt::format("{} {} x {} x {}", dtype_name(dtype), p.m, p.n, p.k),
          args,
          {Operand::random(a, dtype, 1),
           Operand::random(b, dtype, 2),
           Operand::absent(),
           p.accumulate ? Operand::random({p.m, p.n}, DType::fp32, 3) : Operand::result()},
          {.tolerance = {.relative = 1e-5}, .any_threads = true});
      EXPECT_EQ(testing::op_check(device, *reference, op), "");
    }
  }
}

TEST(CpuMatmul, SameBitsUnderAnyThreads) {
  // Where little comes of a deep inner dimension, oneDNN adds the sums of threads.
  expect_same_bits_under_any_threads(*test_device("cpu"), 9000);
}

TEST(CpuMatmul, SameBitsOfTilesUnderAnyThreads) {
  expect_same_bits_under_any_threads(*cpu_device("TESSERA_CPU_FP32", "tiles", "nothing"), 10000);
}

}  // namespace cpu_kernels_test
}  // namespace tessera
