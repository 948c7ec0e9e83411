#include "tessera/device/host_device.hpp"

#include "tensor_support.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera {
namespace host_device_test {

using namespace testing_support;

Kernel constant(float value) {
  Kernel kernel = make_kernel<TestFillArgs>([](const TestFillArgs&) {});
  kernel.launch = [value](const void* args, void*, Stream&) {
    *static_cast<const TestFillArgs*>(args)->out.as<float>() = value;
  };
  return kernel;
}

Kernel named(Kernel kernel, std::string operation) {
  kernel.operation = std::move(operation);
  return kernel;
}

TEST(HostDevices, PreferTheirOwnKernels) {
  DeviceArguments arguments;
  arguments.kernels = [](std::string_view name, std::string_view memory) -> std::vector<Kernel> {
    EXPECT_EQ(name, "mine");
    EXPECT_EQ(memory, kHostMemory);
    return {named(constant(2), "a"), named(constant(2), "b")};
  };
  HostDevice device("mine", arguments, {named(constant(1), "a")});
  const Tensor out = empty(device, {1});
  const auto result = [&](std::string_view operation) {
    const TestFillArgs args{out.arg()};
    device.launch(device.stream(), *device.find(operation), &args, device.pool());
    return values(device, out)[0];
  };
  EXPECT_EQ(result("a"), 1);
  EXPECT_EQ(result("b"), 2);
  EXPECT_EQ(device.find("c"), nullptr);
}

TEST(HostDevices, RefuseTwoKernelsOfOneOrigin) {
  EXPECT_ERROR(HostDevice("x", {}, {constant(1), constant(2)}),
               "operation \"test.fill\" has two kernels (own)");
  DeviceArguments arguments;
  arguments.kernels = [](std::string_view, std::string_view) {
    return std::vector<Kernel>{constant(1), constant(2)};
  };
  EXPECT_ERROR(HostDevice("x", arguments, {}),
               "operation \"test.fill\" has two kernels (registered for device \"x\" or \"host\")");
}

TEST(HostDevices, NameTheMissingOperation) {
  const HostDevice device("bare", {}, {});
  const Operation<TestFillArgs> operation(device);
  EXPECT_FALSE(operation.available());
  TestDevice other;
  EXPECT_ERROR(operation.launch(other.stream(), other.pool(), {}),
               "the device \"bare\" has no operation \"test.fill\" and there is no composition for "
               "it");
}

TEST(HostDevices, HaveNoStreamsForAVendorsLibrary) {
  TestDevice device{DeviceArguments()};
  EXPECT_ERROR(
      device.launch_library(device.stream(), "all_reduce", [](void*) {}),
      "\"all_reduce\" cannot be enqueued on stream \"compute\": device \"test\" has no streams "
      "of a vendor's library; choose a [comm] type for its memory");
}

TEST(HostDevices, SetTheThreadsOfTheirRank) {
  DeviceArguments arguments;
  arguments.threads = 3;
  const TestDevice device(arguments);
  EXPECT_EQ(device.threads(), 3);
  EXPECT_EQ(parallel_threads(), 3);
  set_parallel_threads(1);
}

TEST(HostDevices, RunLaunchesAtOnce) {
  TestDevice device;
  const Tensor x = empty(device, {4}), y = empty(device, {4});
  fill(device.stream(), x, 2);
  add(device.stream(), x, x, y);
  add(device.stream(), y, Tensor(), x);
  EXPECT_EQ(values(device, x), std::vector<float>(4, 4));
  bool ran = false;
  device.launch_host(device.comm_stream(CommLane::critical), "task", [&] { ran = true; });
  EXPECT_TRUE(ran);
  EXPECT_THROW(device.launch_host(device.stream(), "task", [] { fail("no"); }), Error);
}

TEST(HostDevices, ReturnWorkspaceAfterTheLaunch) {
  TestDevice device;
  const Tensor x = empty(device, {1000}), y = empty(device, {1000});
  fill(device.stream(), x, 5);
  device.reset_peaks();
  detour(device.stream(), device.pool(), x, y);
  EXPECT_EQ(values(device, y), std::vector<float>(1000, 5));
  const auto workspace = static_cast<std::size_t>(Category::workspace);
  EXPECT_EQ(device.memory().bytes[workspace], 0);
  EXPECT_EQ(device.memory().peak[workspace], 4096);
}

TEST(HostDevices, ReturnWorkspaceOfALaunchThatFails) {
  Kernel kernel = make_kernel<TestFillArgs>(
      [](const TestFillArgs&) {
        return tessera::LaunchRequirements{100, false};
      },
      [](const TestFillArgs&, void*, Stream&) { fail("broken"); });
  HostDevice device("test", {}, {kernel});
  const TestFillArgs args{};
  EXPECT_ERROR(device.launch(device.stream(), *device.find("test.fill"), &args, device.pool()),
               "broken");
  EXPECT_EQ(device.memory().total, 0);
}

TEST(HostDevices, HaveAStreamForEachLane) {
  TestDevice device;
  EXPECT_EQ(device.stream().index(), 0);
  EXPECT_EQ(device.stream().name(), "compute");
  EXPECT_EQ(device.comm_stream(CommLane::critical).index(), 1);
  EXPECT_EQ(device.comm_stream(CommLane::critical).name(), "critical");
  EXPECT_EQ(device.stream().native(), nullptr);
  EXPECT_EQ(&device.stream().device(), &device);
  device.wait(device.comm_stream(CommLane::critical), device.record(device.stream()));
  device.wait(device.stream(), Event());
  device.synchronize(device.comm_stream(CommLane::critical));
}

TEST(HostDevices, TakeMemoryFromTheirSource) {
  struct Source : MemorySource {
    void* reserve(i64 bytes) override {
      ++calls;
      return std::aligned_alloc(4096, static_cast<std::size_t>(bytes));
    }
    void release(void* address, i64) override { std::free(address); }
    int calls = 0;
  };
  const auto source = std::make_shared<Source>();
  DeviceArguments arguments;
  arguments.memory = source;
  TestDevice device(arguments);
  const Tensor tensor = empty(device, {10});
  EXPECT_EQ(source->calls, 1);
  EXPECT_EQ(device.memory().system_calls, 1);
}

}  // namespace host_device_test
}  // namespace tessera
