// Memory: statistics, lifetimes, host blocks; kinds of memory.
#include <algorithm>
#include <cstdint>
#include <set>

#include "bench.hpp"

namespace tessera::testing {
namespace {

using std::chrono::milliseconds;

bool aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 64 == 0; }

i64 bytes_of(const Device& device, Category category) {
  return device.memory().bytes[static_cast<std::size_t>(category)];
}

/// A block that `compute` releases must not serve `comm` before it is done with.
void check_reuse_across_streams(DeviceBench& bench) {
  Device& device = bench.device();
  const HostBlock block = device.host_block(bench.kElements * 4);
  for (int i = 1; i <= 10; ++i) {
    {
      const Tensor gone = bench.floats(bench.compute());
      bench.fill(bench.compute(), gone, i);
      bench.slow(bench.compute(), milliseconds(1));
      device.copy_to_host(bench.compute(), gone, block);
    }
    {
      const Tensor other = bench.floats(bench.comm());
      bench.fill(bench.comm(), other, -1);
    }
    device.synchronize(bench.comm());
    device.synchronize(bench.compute());
    bench.expect_values("a tensor whose memory another stream asks for after its release",
                        block.as<float>(bench.kElements),
                        static_cast<float>(i));
  }
}

}  // namespace

void check_memory(DeviceBench& bench) {
  Device& device = bench.device();
  for (int i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    const MemoryStats before = device.memory();
    const Block block = device.pool().allocate(1000, category, bench.compute());
    const MemoryStats during = device.memory();
    const auto at = static_cast<std::size_t>(i);
    bench.expect(block.bytes >= 1000 && aligned(block.address),
                 "a block of 1000 bytes has {} or is not aligned to 64",
                 block.bytes);
    bench.expect(during.bytes[at] == before.bytes[at] + block.bytes &&
                     during.total == before.total + block.bytes &&
                     during.peak[at] >= during.bytes[at] && during.total_peak >= during.total &&
                     during.reserved >= during.total,
                 "memory() does not count a block of {}",
                 category_name(category));
    device.pool().release(block);
    bench.expect(
        bytes_of(device, category) == before.bytes[at] && device.memory().total == before.total,
        "memory() does not count the release of a block of {}",
        category_name(category));
  }
  device.reset_peaks();
  bench.expect(device.memory().total_peak == device.memory().total, "reset_peaks keeps a peak");
  device.pool().release(device.pool().allocate(0, Category::workspace, bench.compute()));

  i64 calls = 0;
  for (int i = 0; i < 20; ++i) {
    const Tensor a = bench.floats(), b = bench.floats(bench.comm());
    if (i == 10) calls = device.memory().system_calls;
  }
  bench.expect(device.memory().system_calls == calls && calls > 0,
               "requests that repeat still ask the system for memory");
}

void check_lifetimes(DeviceBench& bench) {
  Device& device = bench.device();
  const Tensor sum = bench.floats();
  bench.fill(bench.compute(), sum, 0);
  float expected = 0;
  const i64 total = device.memory().total;
  for (int i = 1; i <= 50; ++i) {
    const Tensor term = bench.floats(), other = bench.floats();
    bench.fill(bench.compute(), term, i);
    bench.fill(bench.compute(), other, -1);
    bench.add(bench.compute(), sum, term, sum);
    expected += static_cast<float>(i);
  }
  bench.expect(device.memory().total == total, "tensors that were dropped count as in use");
  bench.expect_values(
      "a sum of tensors that were dropped while work on them was queued", sum, expected);
  check_reuse_across_streams(bench);
}

void check_host_blocks(DeviceBench& bench) {
  Device& device = bench.device();
  const i64 bytes = bench.kElements * 4;
  const MemoryStats before = device.memory();
  {
    const HostBlock a = device.host_block(bytes), b = device.host_block(bytes), c = a;
    bench.expect(a.bytes() == bytes && aligned(a.address()) && a.address() != b.address(),
                 "a host block of {} bytes has {}, is not aligned to 64 or is another's",
                 bytes,
                 a.bytes());
    const MemoryStats during = device.memory();
    bench.expect(during.host_blocks == before.host_blocks + 2 * bytes &&
                     during.system_calls > before.system_calls && during.total == before.total,
                 "memory() does not count host blocks apart, or not as requests to the system");
    std::ranges::fill(a.as<float>(bench.kElements), 1.0F);
    bench.expect_values("a copy of a handle", c.as<float>(bench.kElements), 1);
    bench.expect(device.host_block(0).bytes() == 0, "a host block of 0 bytes is refused");
  }
  device.synchronize(bench.compute());
  bench.expect(device.memory().host_blocks == before.host_blocks,
               "a host block counts as in use after its last handle");

  const Tensor x = bench.floats(), sum = bench.floats();
  bench.fill(bench.compute(), sum, 0);
  float expected = 0;
  for (int i = 1; i <= 10; ++i) {
    HostBlock block = device.host_block(bytes);
    std::ranges::fill(block.as<float>(bench.kElements), static_cast<float>(i));
    if (i % 5 == 0) bench.slow(bench.compute(), milliseconds(1));
    device.copy_from_host(bench.compute(), x, block);
    block = HostBlock();
    std::ranges::fill(device.host_block(bytes).as<float>(bench.kElements), -1.0F);
    bench.add(bench.compute(), sum, x, sum);
    expected += static_cast<float>(i);
  }
  bench.expect_values(
      "a sum of host blocks that were dropped while copies were queued", sum, expected);
}

void check_kinds(DeviceBench& bench) {
  Device& device = bench.device();
  const std::string kind(device.memory_kind());
  bench.expect(!kind.empty(), "memory_kind() is empty");
  if (kind == kHostMemory) {
    const Tensor x = bench.floats();
    bench.fill(bench.compute(), x, 3);
    device.synchronize(bench.compute());
    const auto* values = x.arg().as<const float>();
    bench.expect_values(
        "host memory read by the CPU", {values, static_cast<std::size_t>(x.elements())}, 3);
  }

  DeviceArguments arguments;
  std::set<std::pair<std::string, std::string>> asked;
  arguments.kernels = [&](std::string_view name, std::string_view memory) {
    asked.emplace(name, memory);
    Kernel kernel = make_kernel<FillArgs>([](const FillArgs&) {});
    kernel.operation = "device_check.registered";
    return std::vector{kernel};
  };
  const auto with_kernels = bench.make_device()(arguments);
  bench.expect(with_kernels->find("device_check.registered") != nullptr,
               "a kernel that a plugin registered for the device is not found");
  for (const auto& [name, memory] : asked) {  // another device's too, if its memory is of this kind
    bench.expect(memory == kind,
                 "the device, whose memory is of kind \"{}\", takes kernels for \"{}\" with memory "
                 "of kind \"{}\"",
                 kind,
                 name,
                 memory);
  }

  struct Foreign final : MemorySource {
    std::string_view kind() const override { return "device_check"; }
    void* reserve(i64) override { return nullptr; }
    void release(void*, i64) override {}
  };
  arguments = {};
  arguments.memory = std::make_shared<Foreign>();
  bench.expect_error("a device over memory of another kind", "device_check", [&] {
    try {
      bench.make_device()(arguments);
    } catch (const Error& error) {
      bench.expect(error.exit_code() == 2, "memory of another kind is no ConfigError");
      throw;
    }
  });
}

}  // namespace tessera::testing
