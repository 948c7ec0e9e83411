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

/// The cpu device on one instruction set; nullptr where the processor lacks it.
std::shared_ptr<Device> cpu_device(const std::string& isa) {
  const char* before = std::getenv("TESSERA_CPU_ISA");
  const std::optional<std::string> kept =
      before != nullptr ? std::optional<std::string>(before) : std::nullopt;
  setenv("TESSERA_CPU_ISA", isa.c_str(), 1);
  std::shared_ptr<Device> device;
  std::string error;
  try {
    device = test_device("cpu");
  } catch (const Error& caught) {
    error = caught.what();
  }
  if (kept) {
    setenv("TESSERA_CPU_ISA", kept->c_str(), 1);
  } else {
    unsetenv("TESSERA_CPU_ISA");
  }
  if (!error.empty() && error.find("this processor has no") == std::string::npos)
    throw Error(error);
  return device;
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
      if (product && dtype == DType::fp32) continue;  // oneDNN's, the same for all
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

// On processors with AMX bf16 is oneDNN's.
TEST(CpuMatmul, OneDnnAgreesWithReferenceInBf16) {
  setenv("TESSERA_CPU_BF16", "onednn", 1);
  const auto device = test_device("cpu");
  unsetenv("TESSERA_CPU_BF16");
  const auto reference = test_device("reference");
  for (const OpCase& op : testing::core_op_cases(DType::bf16)) {
    if (op.operation != MatmulArgs::kName) continue;
    EXPECT_EQ(testing::op_check(*device, *reference, op), "");
  }
}

TEST(CpuMatmul, UnknownLibraryIsAnError) {
  setenv("TESSERA_CPU_BF16", "mkl", 1);
  EXPECT_THROW(test_device("cpu"), Error);
  unsetenv("TESSERA_CPU_BF16");
}

// Large enough that oneDNN has something to cut, also along the inner dimension.
TEST(CpuMatmul, SameBitsUnderAnyThreads) {
  const auto device = test_device("cpu");
  const auto reference = test_device("reference");
  const Product products[] = {{512, 384, 384, false, true, false},
                              {512, 384, 256, false, false, false},
                              {96, 64, 1024, true, false, true},
                              {384, 384, 512, true, false, true},
                              {50, 49, 9001, false, false, false},
                              {50, 49, 9001, true, true, true}};
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const Product& p : products) {
      if (dtype == DType::fp32 && p.k > 9000) continue;  // there oneDNN adds threads' sums
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
           Operand::absent(),
           p.accumulate ? Operand::random({p.m, p.n}, DType::fp32, 3) : Operand::result()},
          {.tolerance = {.relative = 1e-5}, .any_threads = true});
      EXPECT_EQ(testing::op_check(*device, *reference, op), "");
    }
  }
}

}  // namespace cpu_kernels_test
}  // namespace tessera
