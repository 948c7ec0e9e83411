#include "tensor_support.hpp"

#include <algorithm>
#include <cstring>

#include "tessera/operation.hpp"

namespace tessera::testing_support {

void TestFillArgs::infer(TestFillArgs&) {}
void TestAddArgs::infer(TestAddArgs& args) { args.out.dtype = args.x.dtype; }
void DetourArgs::infer(DetourArgs& args) { args.out.dtype = args.x.dtype; }

namespace {

void run_fill(const TestFillArgs& args) {
  std::fill_n(args.out.as<float>(), args.out.elements(), args.value);
}

void run_add(const TestAddArgs& args) {
  for (i64 i = 0; i < args.out.elements(); ++i) {
    args.out.as<float>()[i] = args.x.as<float>()[i] + (args.y ? args.y.as<float>()[i] : 0);
  }
}

std::size_t bytes_of(const DetourArgs& args) {
  return static_cast<std::size_t>(args.x.elements()) * sizeof(float);
}

LaunchRequirements prepare_detour(const DetourArgs& args) {
  return {static_cast<i64>(bytes_of(args)), false};
}

void run_detour(const DetourArgs& args, void* workspace, Stream&) {
  std::memcpy(workspace, args.x.address, bytes_of(args));
  std::memcpy(args.out.address, workspace, bytes_of(args));
}

std::vector<Kernel> kernels() {
  return {make_kernel<TestFillArgs>(&run_fill),
          make_kernel<TestAddArgs>(&run_add),
          make_kernel<DetourArgs>(&prepare_detour, &run_detour)};
}

}  // namespace

TestDevice::TestDevice(const DeviceArguments& arguments)
    : HostDevice("test", arguments, kernels()) {}

Tensor empty(Device& device, Pool& pool, const Shape& shape) {
  return Tensor::allocate(device, pool, device.stream(), shape, DType::fp32, Category::activations);
}

Tensor empty(Device& device, const Shape& shape) { return empty(device, device.pool(), shape); }

void fill(Stream& stream, const Tensor& out, float value) {
  Device& device = stream.device();
  Operation<TestFillArgs>(device).launch(stream, device.pool(), {out.arg(), value});
}

void add(Stream& stream, const Tensor& x, const Tensor& y, const Tensor& out) {
  Device& device = stream.device();
  Operation<TestAddArgs>(device).launch(stream, device.pool(), {x.arg(), y.arg(), out.arg()});
}

void detour(Stream& stream, Pool& pool, const Tensor& x, const Tensor& out) {
  Operation<DetourArgs>(stream.device()).launch(stream, pool, {x.arg(), out.arg()});
}

std::vector<float> values(Device& device, const Tensor& tensor) {
  std::vector<float> result(static_cast<std::size_t>(tensor.elements()));
  device.read(tensor, result.data());
  return result;
}

}  // namespace tessera::testing_support
