// What an operation says of itself: which dtypes its tensors have, and what a launch works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernel/dry/meta_device.hpp"
#include "tessera/device/host_device.hpp"
#include "tests/common/error_of.hpp"
#include "tests/unit/ops/run.hpp"

namespace tessera {
namespace operation_rules_test {

using testing::error_of;
using ::testing::HasSubstr;

Tensor empty(Device& device, const Shape& shape, DType dtype) {
  return Tensor::allocate(
      device, device.pool(), device.stream(), shape, dtype, Category::activations);
}

std::string gelu_of(DType dtype, Device& device) {
  const Tensor x = empty(device, {4}, dtype), out = empty(device, {4}, dtype);
  return error_of([&] {
    Operation<GeluArgs>(device).launch(device.stream(), device.pool(), {x.arg(), out.arg()});
  });
}

TEST(TypeRules, ADryRunRefusesWhatALaunchWould) {
  const auto cpu = test_device("cpu");
  MetaDevice meta(test_device("cpu"));
  const std::string text =
      "gelu on the device \"cpu\" takes fp32, fp16, bf16 for x, not fp64: choose another precision "
      "or device";
  EXPECT_EQ(gelu_of(DType::fp64, *cpu), text);
  EXPECT_EQ(gelu_of(DType::fp64, meta), text);
  EXPECT_EQ(gelu_of(DType::fp64, *test_device("reference")), "");
}

/// A plugin's operation that says its dtypes and its work.
struct WeighArgs {
  static constexpr std::string_view kName = "test.weigh";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"x", TypeRule::data}, {"ids", TypeRule::integers}, {"sum", TypeRule::accumulator}};
  TensorArg x, ids, sum;
  static void infer(WeighArgs&) {}
  static Effort effort(const WeighArgs& args) {
    Effort effort{.flops = 100, .dtype = args.x.dtype};
    return effort.moves(args.ids);
  }
};

/// One that says neither.
struct PlainArgs {
  static constexpr std::string_view kName = "test.plain";
  static constexpr int kTensors = 2, kOutputs = 1;
  TensorArg ids, out;
  static void infer(PlainArgs&) {}
};

class TwoKernels : public HostDevice {
 public:
  TwoKernels()
      : HostDevice("two",
                   {},
                   {make_kernel<WeighArgs>([](const WeighArgs&) {}, {DType::bf16, DType::fp32}),
                    make_kernel<PlainArgs>([](const PlainArgs&) {}, {DType::i64, DType::fp32})}) {}
};

std::string weigh(Device& device, DType x, DType ids, DType sum) {
  const Tensor tensors[] = {
      empty(device, {2}, x), empty(device, {2}, ids), empty(device, {2}, sum)};
  return error_of([&] {
    Operation<WeighArgs>(device).launch(
        device.stream(), device.pool(), {tensors[0].arg(), tensors[1].arg(), tensors[2].arg()});
  });
}

TEST(TypeRules, HoldForAPluginsOperations) {
  TwoKernels device;
  EXPECT_EQ(weigh(device, DType::bf16, DType::i64, DType::fp32), "");
  EXPECT_EQ(weigh(device, DType::bf16, DType::i64, DType::bf16), "");
  EXPECT_EQ(weigh(device, DType::fp32, DType::i64, DType::fp32), "");
  EXPECT_EQ(weigh(device, DType::bf16, DType::i64, DType::fp64),
            "test.weigh: sum must be bf16 where the data is bf16, is fp64");
  EXPECT_EQ(weigh(device, DType::fp32, DType::i64, DType::bf16),
            "test.weigh: sum must be fp32 where the data is fp32, is bf16");
  EXPECT_EQ(weigh(device, DType::fp32, DType::i32, DType::fp32),
            "test.weigh: ids must be i64 where the data is fp32, is i32");
  EXPECT_THAT(weigh(device, DType::fp16, DType::i64, DType::fp16),
              HasSubstr("takes fp32, bf16 for x, not fp16"));
}

TEST(TypeRules, WithoutThemAKernelsDTypesHold) {
  TwoKernels device;
  const Operation<PlainArgs> plain(device);
  const auto run = [&](DType dtype) {
    const Tensor ids = empty(device, {2}, DType::i64), out = empty(device, {2}, dtype);
    return error_of([&] { plain.launch(device.stream(), device.pool(), {ids.arg(), out.arg()}); });
  };
  EXPECT_EQ(run(DType::fp32), "");
  EXPECT_THAT(run(DType::fp64), HasSubstr("takes fp32, i64 for tensor 1, not fp64"));
}

TEST(Efforts, AreTheOperationsOwn) {
  TwoKernels device;
  WeighArgs weigh;
  const Tensor x = empty(device, {10}, DType::bf16), ids = empty(device, {10}, DType::i64);
  weigh.x = x.arg();
  weigh.ids = ids.arg();
  const Effort own = device.find("test.weigh")->effort(&weigh);
  EXPECT_EQ(own.flops, 100);
  EXPECT_EQ(own.dtype, DType::bf16);
  EXPECT_EQ(own.total_bytes(), 80);

  PlainArgs plain{ids.arg(), x.arg()};
  const Effort moved = device.find("test.plain")->effort(&plain);
  EXPECT_EQ(moved.flops, 0);
  EXPECT_EQ(moved.dtype, DType::bf16);
  EXPECT_EQ(moved.total_bytes(), 80 + 20);
}

Operand bf16(const Shape& shape, std::vector<double> values) {
  return Operand::given(shape, DType::bf16, std::move(values));
}

// 256 + 1 is no bf16: a sum in bf16 would stay at 256.
TEST(Accumulators, AreWiderThanTheData) {
  const Operand sum = Operand::given({1}, DType::fp32, {256});
  const Operand matrix = Operand::given({1, 1}, DType::fp32, {256});
  MatmulArgs product;
  product.accumulate = true;
  const Operand one_by_one = bf16({1, 1}, {1}), none = Operand::absent();
  EXPECT_EQ(run(product, {one_by_one, one_by_one, none, none, matrix})[4],
            std::vector<double>{257});
  EXPECT_EQ(run(ColumnSumArgs{}, {bf16({1, 1}, {1}), sum})[1], std::vector<double>{257});
  EXPECT_EQ(run(EmbeddingWeightArgs{}, {integers({0}), bf16({1, 1}, {1}), matrix})[2],
            std::vector<double>{257});
  const Operand one = Operand::given({1}, DType::fp32, {1});
  const Operand mean = Operand::given({1}, DType::fp32, {0});
  const auto norm =
      run(LayerNormWeightArgs{}, {bf16({1, 1}, {1}), bf16({1, 1}, {1}), mean, one, sum, sum});
  EXPECT_EQ(norm[4], std::vector<double>{257});
  EXPECT_EQ(norm[5], std::vector<double>{257});
}

TEST(Accumulators, AreForSumsOnly) {
  EXPECT_THAT(error_of([] {
                run(MatmulArgs{},
                    {bf16({1, 1}, {1}),
                     bf16({1, 1}, {1}),
                     Operand::absent(),
                     Operand::absent(),
                     Operand::blank({1, 1}, DType::fp32)});
              }),
              HasSubstr("out is wider than a, but does not accumulate"));
}

TEST(HostKernels, CopyRoundsOnceToTheNearest) {
  HostDevice device("plain", {}, {});
  const double up = 1 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40);
  const double down = 1 + std::ldexp(3.0, -8) - std::ldexp(1.0, -40);
  const auto op = testing::op_case("copy",
                                   CopyArgs{},
                                   {fp64({4}, {1 + std::ldexp(1.0, -8), up, down, -INFINITY}),
                                    Operand::blank({4}, DType::bf16)});
  EXPECT_EQ(testing::run_op(device, op).values[1],
            (std::vector<double>{1, 1 + std::ldexp(1.0, -7), 1 + std::ldexp(1.0, -7), -INFINITY}));
}

}  // namespace operation_rules_test
}  // namespace tessera
