#include "tessera/tensor.hpp"

#include <numeric>

#include "tensor_support.hpp"

namespace tessera {
namespace tensor_test {

using namespace testing_support;

TEST(Tensors, AreUndefinedAtFirst) {
  const Tensor tensor;
  EXPECT_FALSE(tensor.defined());
  EXPECT_FALSE(tensor.arg());
  EXPECT_EQ(tensor.text(), "undefined");
  EXPECT_THROW(tensor.device(), Error);
  EXPECT_THROW(tensor.view({1}), Error);
}

TEST(Tensors, ShareMemoryUntilTheLastHandle) {
  TestDevice device;
  {
    Tensor first = empty(device, {8, 4});
    EXPECT_TRUE(first.sole_owner());
    const Tensor second = first.view({4, 8});
    EXPECT_FALSE(first.sole_owner());
    EXPECT_EQ(first.arg().address, second.arg().address);
    first = Tensor();
    EXPECT_TRUE(second.sole_owner());
    EXPECT_GT(device.memory().total, 0);
  }
  EXPECT_EQ(device.memory().total, 0);
}

TEST(Tensors, SlicesPointIntoTheirParent) {
  TestDevice device;
  const Tensor whole = empty(device, {4, 6});
  const Tensor part = whole.slice(0, 1, 2).slice(-1, 2, 3);
  EXPECT_EQ(part.shape(), (Shape{2, 3}));
  EXPECT_EQ(part.strides(), (Shape{6, 1}));
  EXPECT_EQ(part.arg().as<float>(), whole.arg().as<float>() + 8);
  EXPECT_FALSE(part.dense());
  EXPECT_TRUE(whole.slice(0, 3, 1).dense());
  EXPECT_TRUE(whole.slice(1, 0, 1).slice(0, 2, 1).dense());
  EXPECT_TRUE(whole.slice(0, 4, 0).dense());
  EXPECT_ERROR(whole.slice(0, 3, 2), "slice [3, 5) of dimension 0 of fp32 [4, 6] is outside");
  EXPECT_ERROR(part.view({6}),
               "view of fp32 [2, 3] as [6]: strides [6, 1] are not dense; copy it first");
  EXPECT_ERROR(whole.view({5, 5}), "view of fp32 [4, 6] as [5, 5]: 24 elements, not 25");
}

TEST(Tensors, ViewsAndSlicesAreUntracked) {
  TestDevice device;
  const Tensor tensor = empty(device, {2, 2}).with_var({3, 7});
  EXPECT_EQ(tensor.var(), (Var{3, 7}));
  EXPECT_FALSE(tensor.view({4}).var());
  EXPECT_FALSE(tensor.slice(0, 0, 1).var());
}

TEST(Tensors, HaveAnAddressWithoutElements) {
  TestDevice device;
  const Tensor tensor = empty(device, {0, 5});
  EXPECT_TRUE(tensor.arg());
  EXPECT_EQ(values(device, tensor).size(), 0);
}

TEST(Tensors, RefuseImpossibleShapes) {
  TestDevice device;
  EXPECT_ERROR(empty(device, {2, -1}), "a tensor cannot have shape [2, -1]");
  EXPECT_THROW(empty(device, {i64{1} << 40, i64{1} << 40}), Error);
}

TEST(Tensors, AreReadAndWrittenThroughStrides) {
  TestDevice device;
  const Tensor whole = empty(device, {3, 4, 5});
  std::vector<float> numbers(60);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  device.write(whole, numbers.data());
  EXPECT_EQ(values(device, whole), numbers);

  const Tensor column = whole.slice(2, 1, 1);
  EXPECT_EQ(values(device, column),
            (std::vector<float>{1, 6, 11, 16, 21, 26, 31, 36, 41, 46, 51, 56}));
  const Tensor block = whole.slice(0, 1, 2).slice(1, 2, 2).slice(2, 0, 2);
  EXPECT_EQ(values(device, block), (std::vector<float>{30, 31, 35, 36, 50, 51, 55, 56}));

  const std::vector<float> negative{-1, -2, -3, -4, -5, -6, -7, -8};
  device.write(block, negative.data());
  EXPECT_EQ(values(device, block), negative);
  int changed = 0;
  const std::vector<float> after = values(device, whole);
  for (std::size_t i = 0; i < after.size(); ++i) changed += after[i] != numbers[i];
  EXPECT_EQ(changed, 8);
}

TEST(Tensors, OfAnotherDeviceAreNotRead) {
  TestDevice device, other;
  const Tensor tensor = empty(other, {2});
  EXPECT_ERROR(values(device, tensor),
               "host read of a tensor (fp32 [2]) that is not on device \"test\"");
  EXPECT_ERROR(device.write(Tensor(), nullptr), "host write of an undefined tensor");
}

}  // namespace tensor_test
}  // namespace tessera
