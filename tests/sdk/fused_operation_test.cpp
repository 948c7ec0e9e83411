// A fused operation of a plugin's own: arguments, kernels, gradient, use through ops::run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tessera/device/host_device.hpp>
#include <tessera/testing/gradient_check.hpp>
#include <tessera/testing/workbench.hpp>

#include "common/error_of.hpp"
#include "sdk_support.hpp"
#include "swiglu.hpp"

namespace tessera {
namespace fused_operation_test {

std::unique_ptr<HostDevice> device_with_swiglu(bool with_kernels = true) {
  TestRegistrar registrar;
  register_swiglu(registrar);
  DeviceArguments arguments;
  arguments.kernels = [kernels = registrar.kernels, with_kernels](std::string_view,
                                                                  std::string_view) {
    return with_kernels ? kernels : std::vector<Kernel>();
  };
  return std::make_unique<HostDevice>("host_test", arguments, std::vector<Kernel>());
}

TEST(FusedOperation, InfersItsResult) {
  SwigluArgs args;
  args.x.rank = 2;
  args.x.shape[0] = 3;
  args.x.shape[1] = 8;
  SwigluArgs::infer(args);
  EXPECT_EQ(args.out.shape[0], 3);
  EXPECT_EQ(args.out.shape[1], 4);
  args.x.shape[1] = 7;
  EXPECT_THROW(SwigluArgs::infer(args), Error);
}

TEST(FusedOperation, RunsOnADevice) {
  const auto device = device_with_swiglu();
  testing::Workbench bench(*device);
  const Swiglu swiglu(*device);
  const Tensor x = bench.tensor({1, 4}, DType::fp32, {0, 2, 5, 3});
  const Tensor y = swiglu(bench.context(), x);
  EXPECT_EQ(y.shape(), (Shape{1, 2}));
  EXPECT_NEAR(testing::read(y)[0], 0, 1e-6);
  EXPECT_NEAR(testing::read(y)[1], 2 * 0.8807970779778823 * 3, 1e-5);  // sigmoid(2)
}

TEST(FusedOperation, GradientAgreesWithDifferences) {
  const auto device = device_with_swiglu();
  testing::Workbench bench(*device);
  const Swiglu swiglu(*device);
  const auto function = [&](Context& cx, const std::vector<Tensor>& in) {
    return std::vector<Tensor>{swiglu(cx, in[0])};
  };
  EXPECT_EQ(
      testing::gradient_check(bench.context(), function, {bench.random({5, 6}, DType::fp64, 3)}),
      "");
}

// A function that throws leaves the caller's tape as it was.
TEST(FusedOperation, AGradientCheckThatThrowsRecordsNoMore) {
  const auto device = device_with_swiglu();
  testing::Workbench bench(*device);
  const auto function = [](Context&, const std::vector<Tensor>&) -> std::vector<Tensor> {
    fail("it broke");
  };
  Context& cx = bench.context();
  Tape* const before = cx.tape;
  EXPECT_THROW(testing::gradient_check(cx, function, {bench.random({2}, DType::fp64, 3)}), Error);
  EXPECT_EQ(cx.tape, before);
}

TEST(FusedOperation, SaysWhichDeviceLacksIt) {
  const auto device = device_with_swiglu(false);
  testing::Workbench bench(*device);
  const Swiglu swiglu(*device);
  const Tensor x = bench.tensor({1, 2}, DType::fp32, {0, 0});
  EXPECT_THAT(testing::error_of([&] { swiglu(bench.context(), x); }),
              ::testing::HasSubstr("\"host_test\" has no operation \"test.swiglu\""));
}

}  // namespace fused_operation_test
}  // namespace tessera
