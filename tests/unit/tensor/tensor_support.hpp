#pragma once
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tessera/device/host_device.hpp"

namespace tessera::testing_support {

/// out = value
struct TestFillArgs {
  static constexpr std::string_view kName = "test.fill";
  static constexpr int kTensors = 1, kOutputs = 1;
  TensorArg out;
  float value = 0;
  static void infer(TestFillArgs& args);
};

/// out = x + y; y may be absent
struct TestAddArgs {
  static constexpr std::string_view kName = "test.add";
  static constexpr int kTensors = 3, kOutputs = 1;
  TensorArg x, y, out;
  static void infer(TestAddArgs& args);
};

/// out = x, by way of workspace
struct DetourArgs {
  static constexpr std::string_view kName = "test.detour";
  static constexpr int kTensors = 2, kOutputs = 1;
  TensorArg x, out;
  static void infer(DetourArgs& args);
};

/// A host device with the operations above, on fp32 tensors.
class TestDevice : public HostDevice {
 public:
  explicit TestDevice(const DeviceArguments& arguments = {});
};

inline DeviceArguments deferred(u64 seed) {
  DeviceArguments arguments;
  arguments.deferred_seed = seed;
  return arguments;
}

/// An uninitialised fp32 tensor.
Tensor empty(Device& device, Pool& pool, const Shape& shape);
Tensor empty(Device& device, const Shape& shape);
void fill(Stream& stream, const Tensor& out, float value);
void add(Stream& stream, const Tensor& x, const Tensor& y, const Tensor& out);
void detour(Stream& stream, Pool& pool, const Tensor& x, const Tensor& out);
/// The values of an fp32 tensor.
std::vector<float> values(Device& device, const Tensor& tensor);

/// Expects an Error with exactly this text.
#define EXPECT_ERROR(statement, text) \
  EXPECT_THAT([&] { statement; }, ::testing::ThrowsMessage<::tessera::Error>(std::string(text)))

}  // namespace tessera::testing_support
