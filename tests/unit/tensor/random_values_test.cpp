#include "tessera/device/random_values.hpp"

#include "tensor_support.hpp"
#include "tessera/device/small_floats.hpp"
#include "tessera/random.hpp"

namespace tessera {
namespace random_values_test {

using namespace testing_support;

Tensor of(TestDevice& device, const Shape& shape, DType dtype) {
  return Tensor::allocate(
      device, device.pool(), device.stream(), shape, dtype, Category::activations);
}

TEST(RandomValues, FillATensorAndRepeatAfterAPrime) {
  constexpr i64 kBlock = 65521;
  TestDevice device;
  const Tensor out = of(device, {2, kBlock + 7}, DType::fp32);
  write_random(out, 5);
  const std::vector<float> found = values(device, out);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto wanted = static_cast<float>(2 * random_uniform(5, i % kBlock) - 1);
    ASSERT_EQ(found[i], wanted) << i;
  }
}

TEST(RandomValues, AreOfFloatingDtypesInDenseTensors) {
  TestDevice device;
  const Tensor halves = of(device, {3}, DType::bf16);
  write_random(halves, 1);
  BFloat16 found[3];
  device.read(halves, found);
  for (u64 i = 0; i < 3; ++i) {
    EXPECT_NEAR(static_cast<double>(found[i]), 2 * random_uniform(1, i) - 1, 1e-2);
  }
  write_random(of(device, {0}, DType::fp16), 1);
  const Tensor square = of(device, {4, 4}, DType::fp32);
  EXPECT_ERROR(write_random(square.slice(1, 0, 2), 1),
               "random values for fp32 [4, 2], which is not dense");
  EXPECT_ERROR(write_random(of(device, {3}, DType::i64), 1), "write_random has no values of i64");
}

}  // namespace random_values_test
}  // namespace tessera
