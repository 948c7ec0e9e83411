// What conformance_test.cpp does not ask of the cpu device: every instruction set that this
// processor has, and the same bits under any number of threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numbers>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/device/core_ops.hpp"
#include "tessera/error.hpp"
#include "tessera/parallel_for.hpp"
#include "tessera/testing/core_op_cases.hpp"
#include "tests/common/environment.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera {
namespace cpu_kernels_test {

using testing::EnvironmentVariable;
using testing::OpCase;

/// With MKL from the folder TESSERA_TEST_MKL, or where the loader finds it; nullptr without one.
std::shared_ptr<Device> device_of_mkl() {
  std::vector<std::string> keys = {"fp32_matmul=mkl"};
  if (const char* folder = std::getenv("TESSERA_TEST_MKL")) {
    keys.push_back(fmt::format("mkl_folder={}", folder));
  }
  return cpu_device(keys);
}

/// Kernels whose loops run on several threads, against many slow products of the reference.
class CpuMatmul : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "loops have one thread under TSan (parallel_for): there is nothing to see";
#endif
  }
};

class CpuInstructionSet : public CpuMatmul, public ::testing::WithParamInterface<const char*> {};

TEST_P(CpuInstructionSet, AgreesWithReferenceUnderAnyThreads) {
  const auto device = cpu_device_on(GetParam());
  if (device == nullptr) GTEST_SKIP() << "this processor has no " << GetParam();
  const std::string_view isa = GetParam();
  const bool onednn = isa.starts_with("avx512") || isa == "amx";       // multiplies fp32
  const bool tiles = std::string_view(GetParam()).starts_with("amx");  // which multiply bf16 only
  int cases = 0;
  for (const DType dtype : {DType::bf16, DType::fp32, DType::fp16}) {
    if (tiles && dtype != DType::bf16) break;
    const std::vector<OpCase>& all = core_cases(dtype);
    for (std::size_t i = 0; i < all.size(); ++i) {
      OpCase op = all[i];
      const bool product =
          op.operation == MatmulArgs::kName || op.operation == LinearWeightArgs::kName;
      if (product && dtype == DType::fp32 && onednn) continue;
      op.options.any_threads = true;
      EXPECT_EQ(testing::op_check(*device, reference_outcome(dtype, i), op), "");
      ++cases;
    }
  }
  EXPECT_GT(cases, 100);
}

// What simd/gelu_erf.hpp states, on every instruction set; x · Φ(x) as the C library has it.
TEST_P(CpuInstructionSet, GeluErfIsAsAccurateAsStated) {
  const auto device = cpu_device_on(GetParam());
  if (device == nullptr) GTEST_SKIP() << "this processor has no " << GetParam();
  std::vector<double> x;
  for (int i = -13 * 64; i <= 13 * 64; ++i) x.push_back(i / 64.0);  // floats too
  const Shape shape{static_cast<i64>(x.size())};
  const auto outcome = testing::run_op(
      *device,
      testing::op_case(
          "accuracy",
          GeluErfArgs{},
          {testing::Operand::given(shape, DType::fp32, x), testing::Operand::result()}));
  ASSERT_EQ(outcome.wrong, "");
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double size = std::abs(x[i]), limit = size <= 2 ? 5e-7 : size <= 5 ? 1e-6 : 5e-6;
    const double expected = 0.5 * x[i] * std::erfc(-x[i] / std::numbers::sqrt2);
    ASSERT_NEAR(outcome.values[1][i], expected, limit * std::abs(expected)) << x[i];
  }
}

TEST_P(CpuInstructionSet, TanhIsAsAccurateAsStated) {
  const auto device = cpu_device_on(GetParam());
  if (device == nullptr) GTEST_SKIP() << "this processor has no " << GetParam();
  std::vector<double> x;
  for (int i = -10 * 256; i <= 10 * 256; ++i) x.push_back(i / 256.0);  // floats too
  const Shape shape{static_cast<i64>(x.size())};
  const auto of = testing::Operand::given(shape, DType::fp32, x);
  const auto outcome = testing::run_op(
      *device, testing::op_case("accuracy", TanhArgs{}, {of, testing::Operand::result()}));
  ASSERT_EQ(outcome.wrong, "");
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = std::tanh(x[i]);
    ASSERT_NEAR(outcome.values[1][i], expected, 4e-7 * std::abs(expected)) << x[i];
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         CpuInstructionSet,
                         ::testing::ValuesIn(kInstructionSets),
                         [](const auto& info) { return std::string(info.param); });

TEST(CpuInstructionSets, TheDeviceSaysWhatComputes) {
  EXPECT_EQ(cpu_device({"isa=baseline"})->hardware(),
            "baseline; matmul: fp32 built-in, bf16 built-in");
  EXPECT_EQ(cpu_device({"isa=baseline", "fp32_matmul=onednn"})->hardware(),
            "baseline; matmul: fp32 oneDNN, bf16 built-in");
}

TEST(CpuInstructionSets, WrongKeysAreRefused) {
  const auto says = [](const std::string& text) {
    return ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr(text));
  };
  EXPECT_THAT([] { cpu_device({"isa=sse9"}); }, says("isa: expected \"auto\" | \"baseline\" | "));
  EXPECT_THAT(
      [] {
        cpu_device({"fp32_matmul=tiles", "prepare_fp32=true"});
      },
      says("device.prepare_fp32 prepares weights for oneDNN, and here fp32 is built-in: set "
           "device.fp32_matmul = \"onednn\", or leave it out"));
  EXPECT_THAT(
      [] {
        test_device("cpu", {}, {"fp32_matmul=mkl", "mkl_folder=/nowhere"});
      },
      says("device.fp32_matmul = \"mkl\": no MKL in /nowhere: looked for libmkl_rt.so, .so.2 "
           "and .so.3; the last try said: /nowhere/libmkl_rt.so: cannot open"));
  EXPECT_THAT([] { cpu_device({"mkl_folder=/nowhere"}); },
              says("device.mkl_folder is for device.fp32_matmul = \"mkl\", which is \"auto\""));
}

// They chose what keys choose now.
TEST(CpuInstructionSets, VariablesOfTheEnvironmentAreRefused) {
  for (const auto& [variable, key] :
       {std::pair{"TESSERA_CPU_ISA", "device.isa"},
        std::pair{"TESSERA_CPU_FP32", "device.fp32_matmul (and device.mkl_folder)"},
        std::pair{"TESSERA_CPU_BF16", "device.bf16_matmul"},
        std::pair{"TESSERA_CPU_PREPARE_FP32", "device.prepare_fp32"}}) {
    const EnvironmentVariable set(variable, "tiles");
    EXPECT_THAT([] { test_device("cpu"); },
                ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr(
                    fmt::format("{} is set in the environment, and nothing reads it: unset it, and "
                                "set {} in the configuration",
                                variable,
                                key))));
    const EnvironmentVariable empty(variable, "");
    EXPECT_NE(test_device("cpu"), nullptr);
  }
}

// Tiles take subnormal numbers for zero and other kernels here do not, which tells who computed.
TEST(CpuInstructionSets, TilesTakeTheProductsAndAttentionThatFit) {
  const auto device = cpu_device_on("amx_emulated");
  if (device == nullptr) GTEST_SKIP() << "this processor has no avx2";
  using testing::Operand;
  const auto all = [](const Shape& shape, DType dtype, double value) {
    const auto n = static_cast<std::size_t>(shape.elements());
    return Operand::given(shape, dtype, std::vector<double>(n, value));
  };
  const auto is_zero =
      [&]<class Args>(const Args& args, std::size_t result, const std::vector<Operand>& operands) {
        const auto outcome = testing::run_op(*device, testing::op_case("tiny", args, operands));
        return std::ranges::all_of(outcome.values.at(result), [](double x) { return x == 0; });
      };
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    const bool tiled = dtype == DType::bf16;
    const double tiny = tiled ? 1e-39 : 6e-8;  // 6e-8 is subnormal in fp16, but not in fp32
    const Operand counts = Operand::given({1}, DType::i64, {8});
    EXPECT_EQ(is_zero(MatmulArgs{},
                      4,
                      {all({3, 8}, dtype, tiny),
                       all({8, 5}, dtype, 1),
                       Operand::absent(),
                       Operand::absent(),
                       Operand::result()}),
              tiled);
    EXPECT_EQ(is_zero(LinearWeightArgs{},
                      2,
                      {all({8, 3}, dtype, tiny),
                       all({8, 5}, dtype, 1),
                       all({3, 5}, DType::fp32, 0),
                       all({3}, DType::fp32, 0)}),
              tiled);
    EXPECT_EQ(
        is_zero(GroupedMatmulArgs{},
                3,
                {all({8, 4}, dtype, tiny), counts, all({1, 4, 5}, dtype, 1), Operand::result()}),
        tiled);
    EXPECT_EQ(is_zero(GroupedWeightArgs{},
                      3,
                      {all({8, 4}, dtype, tiny),
                       counts,
                       all({8, 5}, dtype, 1),
                       all({1, 4, 5}, DType::fp32, 0)}),
              tiled);
  }
  for (const i64 features : {32, 48, 64}) {
    const bool tiled = features % 32 == 0;
    const Shape shape{1, 4, 1, features};
    const Operand ones = all(shape, DType::bf16, 1), tiny = all(shape, DType::bf16, 1e-39);
    const Operand blank = Operand::blank(shape, DType::bf16), none = Operand::absent();
    AttentionSpec spec;
    spec.scale = 0.1;
    AttentionArgs forward;
    forward.spec = spec;
    EXPECT_EQ(is_zero(forward, 6, {ones, ones, tiny, none, none, none, blank, Operand::result()}),
              tiled);
    AttentionBackwardArgs backward;
    backward.spec = spec;
    const Operand lse = all({1, 1, 4}, DType::fp32, 1);
    EXPECT_EQ(is_zero(backward,
                      11,
                      {ones, ones, ones, none, none, none, ones, lse, tiny, blank, blank, blank}),
              tiled);
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

// A second thread would have to be woken in each layer of each token, which a busy host is slow to
// do. A thread has scratch of its own, so scratch counts the threads.
TEST(CpuKernels, TakeOneThreadForTheAttentionOfAToken) {
  const auto device = test_device("cpu");
  const auto scratch = [&](i64 queries, int threads) {
    const ParallelThreads limit(threads);
    using testing::Operand;
    const Operand q = Operand::random({1, queries, 4, 32}, DType::fp32, 1);
    const Operand k = Operand::random({1, 128, 4, 32}, DType::fp32, 2);
    AttentionArgs args;
    args.spec.scale = 0.1;
    const Operand none = Operand::absent(), blank = Operand::blank(q.shape, DType::fp32);
    device->reset_peaks();
    testing::run_op(
        *device,
        testing::op_case("attention", args, {q, k, k, none, none, none, blank, Operand::result()}));
    return device->memory().peak[static_cast<std::size_t>(Category::workspace)];
  };
  EXPECT_GT(scratch(1, 1), 0);
  EXPECT_EQ(scratch(1, 4), scratch(1, 1));
  EXPECT_EQ(scratch(128, 4), 4 * scratch(128, 1));
}

// Gradients are summed and updated in fp32: another dtype would be read as fp32.
// Losses and their weights are fp64, whatever the model computes in.
TEST(CpuKernels, AddAndScaleDoubles) {
  const auto device = cpu_device({}), reference = test_device("reference");
  for (const OpCase& op : core_cases(DType::fp64)) {
    if (op.operation != AddArgs::kName && op.operation != ScaleArgs::kName) continue;
    EXPECT_EQ(testing::op_check(*device, *reference, op), "");
  }
}

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
  const std::vector<OpCase>& all = core_cases(dtype);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const OpCase& op = all[i];
    if (op.operation != MatmulArgs::kName && op.operation != LinearWeightArgs::kName) continue;
    EXPECT_EQ(testing::op_check(device, reference_outcome(dtype, i), op), "");
  }
}

TEST_F(CpuMatmul, OneDnnAgreesWithReferenceInBf16) {
  const auto device = cpu_device({"bf16_matmul=onednn"});
  if (device == nullptr) GTEST_SKIP() << "oneDNN multiplies bf16 with AVX-512 only";
  expect_products_of(*device, DType::bf16);
}

// Without AVX-512 fp32 is that of our tiles, with it oneDNN's.
TEST_F(CpuMatmul, BothLibrariesAgreeWithReferenceInFp32) {
  for (const char* library : {"onednn", "tiles"}) {
    SCOPED_TRACE(library);
    expect_products_of(*cpu_device({fmt::format("fp32_matmul={}", library)}), DType::fp32);
  }
}

// MKL is run where tests/oracle/venv.sh has installed it: ctest -R oracle.mkl.
class CpuMkl : public CpuMatmul {
 protected:
  void SetUp() override {
    CpuMatmul::SetUp();
    if (IsSkipped()) return;
    device_ = device_of_mkl();
    if (device_ == nullptr) GTEST_SKIP() << "no MKL here; TESSERA_TEST_MKL names a folder with one";
  }
  std::shared_ptr<Device> device_;
};

TEST_F(CpuMkl, AgreesWithReference) { expect_products_of(*device_, DType::fp32); }

TEST_F(CpuMkl, IsNamed) {
  EXPECT_THAT(device_->hardware(), ::testing::HasSubstr("; matmul: fp32 MKL 20"));
}

TEST_F(CpuMkl, ReadsNoPreparedWeights) {
  const testing::PlacedOperand weight(*device_, testing::Operand::random({48, 64}, DType::fp32, 1));
  const PackWeightArgs pack{weight.arg(), {}, true};
  EXPECT_EQ(device_->find(PackWeightArgs::kName)->prepare(&pack).output_bytes, 0);
}

void expect_same_bits_under_any_threads(Device& device) {
  const auto reference = test_device("reference");
  // Large enough that there is something to cut, also along the inner dimension.
  const Product products[] = {{512, 384, 384, false, true, false},
                              {512, 384, 256, false, false, false},
                              {256, 384, 1536, false, false, false},
                              {64, 768, 8000, false, false, false},
                              {96, 64, 1024, true, false, true},
                              {384, 384, 512, true, false, true},
                              {256, 64, 4096, true, false, true},
                              {50, 49, 9001, false, false, false},
                              {50, 49, 9001, true, true, true}};
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const Product& p : products) {
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
      EXPECT_EQ(testing::op_check(device, *reference, op), "");
    }
  }
}

TEST_F(CpuMatmul, SameBitsUnderAnyThreads) {
  expect_same_bits_under_any_threads(*test_device("cpu"));
}

TEST_F(CpuMatmul, SameBitsOfTilesUnderAnyThreads) {
  expect_same_bits_under_any_threads(*cpu_device({"fp32_matmul=tiles"}));
}

TEST_F(CpuMkl, SameBitsUnderAnyThreads) { expect_same_bits_under_any_threads(*device_); }

}  // namespace cpu_kernels_test
}  // namespace tessera
