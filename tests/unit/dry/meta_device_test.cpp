#include "kernel/dry/meta_device.hpp"

#include <set>

#include "sdk/src/shared/arena.hpp"
#include "unit/tensor/tensor_support.hpp"

namespace tessera {
namespace meta_device_test {

using namespace testing_support;

struct Meta {
  std::vector<std::string> launched;
  MetaDevice device{std::make_shared<TestDevice>(), [this](const Kernel& kernel, const void*) {
                      launched.push_back(kernel.operation);
                    }};
};

TEST(MetaDevices, TakeTheMemoryThatTheRealDeviceTakes) {
  const auto use = [](Device& device) {
    const HostBlock block = device.host_block(500);
    const Tensor x = empty(device, {1000}), y = empty(device, {3, 700});
    { const Tensor gone = empty(device, {5000}); }
    detour(device.stream(), device.pool(), x, x);
    return device.memory();
  };
  TestDevice real;
  Meta meta;
  const MemoryStats expected = use(real), stats = use(meta.device);
  EXPECT_EQ(stats.bytes, expected.bytes);
  EXPECT_EQ(stats.peak, expected.peak);
  EXPECT_EQ(stats.total_peak, expected.total_peak);
  EXPECT_EQ(stats.reserved, expected.reserved);
  EXPECT_EQ(stats.host_blocks, 500);
  EXPECT_EQ(stats.system_calls, expected.system_calls);
  EXPECT_GT(stats.peak[static_cast<std::size_t>(Category::workspace)], 0);
}

// TSan has addresses for a little over 1 TiB in all.
TEST(MetaDevices, HoldMoreThanTheMachine) {
  Meta meta;
  const Tensor x = empty(meta.device, {i64{1} << 37});
  fill(meta.device.stream(), x, 1);
  EXPECT_EQ(meta.device.memory().total, i64{1} << 39);
}

// What a plan of a model says that fits nowhere.
TEST(MetaDevices, HoldMoreThanAnAddressSpace) {
  Meta meta;
  {
    const Tensor x = empty(meta.device, {i64{1} << 52}), y = empty(meta.device, {i64{1} << 52});
    EXPECT_NE(x.arg().address, y.arg().address);
    fill(meta.device.stream(), x, 1);
    EXPECT_EQ(meta.device.memory().total, i64{1} << 55);
  }
  EXPECT_EQ(meta.device.memory().total, 0);
}

TEST(MetaDevices, ReportLaunchesAndReadZeros) {
  Meta meta;
  const Tensor x = empty(meta.device, {4});
  const std::vector<float> ones(4, 1);
  meta.device.write(x, ones.data());
  fill(meta.device.stream(), x, 2);
  add(meta.device.stream(), x, x, x);
  EXPECT_EQ(meta.launched, (std::vector<std::string>{"test.fill", "test.add"}));
  EXPECT_EQ(values(meta.device, x), std::vector<float>(4, 0));
  bool ran = false;
  meta.device.launch_host(meta.device.stream(), "task", [&] { ran = true; });
  EXPECT_FALSE(ran);
}

TEST(MetaDevices, ReadAssumptions) {
  Meta meta;
  Stream& stream = meta.device.stream();
  const std::vector<float> assumed = {1, 2, 3, 4, 5, 6};
  const HostBlock block = meta.device.host_block(24);
  {
    const Tensor x = empty(meta.device, {2, 3}), other = empty(meta.device, {6});
    meta.device.assume(x, assumed.data());
    fill(stream, x, 9);
    EXPECT_EQ(values(meta.device, x), assumed);
    EXPECT_EQ(values(meta.device, x.slice(1, 1, 2)), (std::vector<float>{2, 3, 5, 6}));
    EXPECT_EQ(values(meta.device, other), std::vector<float>(6, 0));
    meta.device.copy_to_host(stream, x, block);
    EXPECT_THAT(block.as<float>(6), ::testing::ElementsAreArray(assumed));
    meta.device.copy_from_host(stream, other, block);
    EXPECT_EQ(values(meta.device, other), std::vector<float>(6, 0)) << "dropped";
    const std::vector<float> one = {7};
    meta.device.assume(x.slice(0, 1, 1).slice(1, 0, 1), one.data());
    EXPECT_EQ(values(meta.device, x)[3], 7);
    EXPECT_EQ(values(meta.device, x)[0], 0) << "the later assumption replaces the earlier";
    EXPECT_THROW(meta.device.assume(x.slice(1, 1, 2), one.data()), Error) << "not dense";
  }
  const Tensor again = empty(meta.device, {2, 3});
  EXPECT_EQ(values(meta.device, again), std::vector<float>(6, 0)) << "new memory, no assumption";
}

TEST(MetaDevices, ReplayCopiesOfAssumptions) {
  Meta meta;
  Stream& stream = meta.device.stream();
  const Tensor x = empty(meta.device, {2});
  const HostBlock block = meta.device.host_block(8);
  meta.device.begin_capture(stream);
  meta.device.copy_to_host(stream, x, block);
  const auto graph = meta.device.end_capture(stream);
  for (const float value : {3.0F, 4.0F}) {
    const std::vector<float> assumed(2, value);
    meta.device.assume(x, assumed.data());
    meta.device.replay(*graph, stream);
    EXPECT_THAT(block.as<float>(2), ::testing::Each(value));
  }
}

// Graphs of one stream share scratch memory: their tensors lie at one address, one after the other.
TEST(MetaDevices, KeepAssumptionsOfTensorsAtOneAddressApart) {
  Meta meta;
  Stream& stream = meta.device.stream();
  Arena scratch(meta.device.pool(), 4096, stream);
  const std::vector<float> values = {3, 4, 0};
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<HostBlock> blocks;
  std::set<void*> addresses;
  for (const float value : values) {
    const HostBlock& block = blocks.emplace_back(meta.device.host_block(8));
    meta.device.begin_capture(stream);
    const Tensor x =
        Tensor::allocate(meta.device, scratch, stream, {2}, DType::fp32, Category::workspace);
    const std::vector<float> assumed(2, value);
    if (value != 0) meta.device.assume(x, assumed.data());
    meta.device.copy_to_host(stream, x, block);
    graphs.push_back(meta.device.end_capture(stream));
    addresses.insert(x.arg().address);
  }
  EXPECT_EQ(addresses.size(), 1U);
  for (int again = 0; again < 2; ++again) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      meta.device.replay(*graphs[i], stream);
      EXPECT_THAT(blocks[i].as<float>(2), ::testing::Each(values[i]));
    }
  }
}

TEST(MetaDevices, HaveTheMemoryKindOfTheRealDevice) {
  struct Cuda : TestDevice {
    std::string_view memory_kind() const override { return "cuda"; }
  };
  EXPECT_EQ(MetaDevice(std::make_shared<Cuda>()).memory_kind(), "cuda");
}

TEST(MetaDevices, CaptureAsTheRealDeviceDoes) {
  Meta meta;
  const Tensor x = empty(meta.device, {4});
  Stream& stream = meta.device.stream();
  meta.device.begin_capture(stream);
  EXPECT_ERROR(
      fill(stream, x, 1),
      "operation \"test.fill\" is used for the first time at these shapes (fp32 [4]) while "
      "capturing on stream \"compute\": run one warm-up before the capture, in which "
      "libraries set themselves up");
  meta.device.abort_capture();
  fill(stream, x, 1);
  meta.device.begin_capture(stream);
  fill(stream, x, 1);
  EXPECT_EQ(meta.device.end_capture(stream)->launches(), 1);
}

TEST(MetaDevices, LackWhatTheRealDeviceLacks) {
  Meta meta;
  EXPECT_EQ(meta.device.find("nothing"), nullptr);
  EXPECT_NE(meta.device.find("test.fill"), nullptr);
}

}  // namespace meta_device_test
}  // namespace tessera
