// The device `cuda` over the emulator (tests/cuda_emulated).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "tessera/device/core_ops.hpp"
#include "tessera/testing/device_check.hpp"
#include "tests/common/error_of.hpp"
#include "tests/unit/ops/devices_support.hpp"

namespace tessera {
namespace cuda_device_test {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

constexpr const char* kDevice = "cuda_emulated";

class CudaContract : public ::testing::TestWithParam<int> {};

TEST_P(CudaContract, Holds) {
  setenv("TESSERA_EMULATED_SEED", std::to_string(GetParam()).c_str(), 1);
  EXPECT_EQ(testing::device_check([](DeviceArguments arguments) {
              return test_device(kDevice, std::move(arguments));
            }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Seeds, CudaContract, ::testing::Range(1, 21));

TEST(Cuda, SaysWhatDecidesBits) {
  const auto device = test_device(kDevice);
  EXPECT_THAT(device->hardware(), AllOf(HasSubstr("capability"), HasSubstr("cuBLASLt")));
}

// What it holds, tensors and events, belongs to that thread.
TEST(Cuda, DropsAHostTaskOnTheRanksThread) {
  const auto device = test_device(kDevice);
  std::thread::id ran, dropped;
  {
    const std::shared_ptr<void> held(nullptr, [&](void*) { dropped = std::this_thread::get_id(); });
    device->launch_host(
        device->stream(), "a task", [held, &ran] { ran = std::this_thread::get_id(); });
  }
  device->synchronize(device->stream());
  EXPECT_NE(ran, std::this_thread::get_id());
  EXPECT_EQ(dropped, std::this_thread::get_id());
}

TEST(Cuda, HasAUnitOfItsOwn) {
  const DeviceUnit unit = test_device(kDevice)->unit();
  EXPECT_EQ(unit.id, "GPU-656d756c-6174-6564-2047-505520000000");
  EXPECT_EQ(unit.text, "GPU 0 of 1, " + unit.id + ", 4.00 GiB of 4.00 GiB free");
}

TEST(Cuda, HasNoMoreHostBlocksThanTheHostHasMemory) {
  const auto device = test_device(kDevice);
  EXPECT_EQ(error_of([&] { device->host_block(i64{1} << 47); }),
            "out of memory: the host has no 140737488355328 bytes more that can be locked for "
            "copies");
}

TEST(Cuda, IsPlannedWithoutHardware) {
  DeviceArguments arguments;
  arguments.planned = true;
  const auto planned = test_device(kDevice, arguments);
  EXPECT_EQ(planned->name(), kDevice);
  EXPECT_EQ(planned->memory_kind(), kDevice);
  const Operation<AddArgs> add(*planned);
  ASSERT_TRUE(add.available());
  const Tensor x = Tensor::allocate(
      *planned, planned->pool(), planned->stream(), {4}, DType::fp32, Category::activations);
  AddArgs args;
  args.a = args.b = args.out = x.arg();
  EXPECT_EQ(error_of([&] { add.launch(planned->stream(), planned->pool(), args); }),
            "operation \"add\" on device \"cuda_emulated\", which is only planned: it has no "
            "hardware to run on");
}

}  // namespace cuda_device_test
}  // namespace tessera
