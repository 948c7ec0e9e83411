// Prepared weights of the cpu device: a product that reads one does not read the weight, and has
// the same bits.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tessera/device/core_ops.hpp"
#include "tessera/error.hpp"
#include "tessera/parallel_for.hpp"
#include "tessera/testing/op_check.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera {
namespace packed_weight_test {

using testing::InMemory;
using testing::Operand;
using testing::PlacedOperand;

struct Sizes {
  i64 rows, in, out;
};
// Panels that are not full, an inner dimension of several parts. Fewer rows than five are no reason
// to pack a weight.
const Sizes kSizes[] = {{5, 1, 1}, {6, 384, 1152}, {67, 129, 50}, {300, 70, 97}, {20, 5000, 100}};

i64 packed_bytes(const Device& device, const PackWeightArgs& args) {
  return device.find(PackWeightArgs::kName)->prepare(&args).output_bytes;
}

void fill(Device& device, const TensorArg& tensor, double value) {
  Operation<FillArgs>(device).launch(device.stream(), device.pool(), {tensor, value});
}

// x · weightᵀ or gradient · weight, of a weight that is packed and then overwritten by NaN; and as
// it is without.
struct Outcome {
  std::vector<double> plain, packed;
};
Outcome products(Device& device, const Sizes& s, DType dtype, bool forward, InMemory in_memory) {
  const PlacedOperand weight(device, Operand::random({s.out, s.in}, dtype, 1).in(in_memory));
  const PlacedOperand a(device, Operand::random({s.rows, forward ? s.in : s.out}, dtype, 2));
  const PlacedOperand plain(device, Operand::blank({s.rows, forward ? s.out : s.in}, dtype));
  const PlacedOperand packed(device, Operand::blank({s.rows, forward ? s.out : s.in}, dtype));
  const Operation<MatmulArgs> multiply(device);
  MatmulArgs args;
  args.a = a.arg();
  args.b = weight.arg();
  args.transpose_b = forward;
  args.out = plain.arg();
  multiply.launch(device.stream(), device.pool(), args);
  PackWeightArgs pack{weight.arg(), {}, forward};
  const Tensor form = Tensor::allocate(device,
                                       device.pool(),
                                       device.stream(),
                                       {packed_bytes(device, pack)},
                                       DType::u8,
                                       Category::parameters);
  pack.packed = args.packed = form.arg();
  PackWeightArgs::infer(pack);
  Operation<PackWeightArgs>(device).launch(device.stream(), device.pool(), pack);
  fill(device, weight.arg(), std::numeric_limits<double>::quiet_NaN());
  args.out = packed.arg();
  multiply.launch(device.stream(), device.pool(), args);
  return {plain.read().values, packed.read().values};
}

class PackedWeight : public ::testing::TestWithParam<const char*> {};

TEST_P(PackedWeight, GivesTheBitsOfTheWeight) {
  const auto device = cpu_device_on(GetParam());
  if (device == nullptr) GTEST_SKIP() << "this processor has no " << GetParam();
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const Sizes& s : kSizes) {
      for (const bool forward : {true, false}) {
        for (const InMemory in_memory : {InMemory::dense, InMemory::padded}) {
          for (const int threads : {1, 3}) {
            const ParallelThreads limit(threads);
            SCOPED_TRACE(fmt::format("{} {} x {} x {}", dtype_name(dtype), s.rows, s.in, s.out));
            const Outcome outcome = products(*device, s, dtype, forward, in_memory);
            EXPECT_TRUE(outcome.packed == outcome.plain);
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         PackedWeight,
                         ::testing::ValuesIn(kInstructionSets),
                         [](const auto& info) { return std::string(info.param); });

// The same code packs bf16 where oneDNN multiplies it.
TEST(PackedWeightOfOneDnn, GivesTheProductOfTheWeight) {
  const auto device = cpu_device({"prepare_fp32=true", "fp32_matmul=onednn"});
  ASSERT_NE(device, nullptr);
  for (const Sizes& s : kSizes) {
    for (const bool forward : {true, false}) {
      SCOPED_TRACE(fmt::format("{} x {} x {}", s.rows, s.in, s.out));
      const Outcome outcome = products(*device, s, DType::fp32, forward, InMemory::padded);
      EXPECT_EQ(testing::difference(outcome.packed, outcome.plain, {.relative = 1e-5}), "");
    }
  }
}

// Forms that win nothing would only take memory.
TEST(PackedWeight, IsForTypesThatGainByIt) {
  const auto device = test_device("cpu");
  const auto bytes = [&](DType dtype, const Shape& shape) {
    const PlacedOperand weight(*device, Operand::random(shape, dtype, 1));
    return packed_bytes(*device, {weight.arg(), {}, true});
  };
  EXPECT_EQ(bytes(DType::fp32, {48, 64}), 0);
  EXPECT_GE(bytes(DType::bf16, {48, 64}), 48 * 64 * 2);
  EXPECT_GE(bytes(DType::fp16, {48, 64}), 48 * 64 * 2);
  EXPECT_EQ(bytes(DType::bf16, {0, 64}), 0);
  EXPECT_EQ(test_device("reference")->find(PackWeightArgs::kName), nullptr);
}

TEST(PackedWeight, NeedsMemoryOfItsOwnSize) {
  const auto device = test_device("cpu");
  const PlacedOperand weight(*device, Operand::random({3, 4}, DType::bf16, 1));
  PackWeightArgs pack{weight.arg(), {}, true};
  EXPECT_THAT([&] { PackWeightArgs::infer(pack); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr(
                  "pack_weight: packs into memory of the device's own size, which is given")));
}

}  // namespace packed_weight_test
}  // namespace tessera
