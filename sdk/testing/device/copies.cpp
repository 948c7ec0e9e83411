// Copies between host and device, and errors of what runs later.
#include <algorithm>
#include <cstring>
#include <thread>

#include "bench.hpp"

namespace tessera::testing {
namespace {

using std::chrono::milliseconds;
using Bytes = std::vector<std::byte>;

/// Bytes that differ from each other and by `seed`; each is 0 or 1, which every type can hold.
Bytes pattern(i64 count, u64 seed) {
  Bytes bytes(static_cast<std::size_t>(count));
  u64 state = seed;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>(state >> 63);
  }
  return bytes;
}

Bytes bytes_of(Device& device, const Tensor& tensor) {
  Bytes bytes(static_cast<std::size_t>(tensor.bytes()));
  device.read(tensor, bytes.data());
  return bytes;
}

/// A part of `whole`, which must stay as it is outside of the part.
void check_part(DeviceBench& bench, const Tensor& whole, const Tensor& part) {
  Device& device = bench.device();
  const std::string what = fmt::format("{} with strides {}", part, part.strides());
  constexpr i64 kOffset = 24, kBeyond = 40;
  const HostBlock block = device.host_block(kOffset + part.bytes() + kBeyond);
  const auto at = [&](i64 offset, i64 count) { return block.as<std::byte>(count, offset); };
  const Bytes before = pattern(whole.bytes(), 1), values = pattern(part.bytes(), 2);

  device.write(whole, before.data());
  const Bytes expected = bytes_of(device, part);
  std::ranges::fill(at(0, block.bytes()), std::byte{77});
  device.copy_to_host(bench.compute(), part, block, kOffset);
  device.join(device.record(bench.compute()), bench.soon(), "a copy to the host");
  bench.expect(std::ranges::equal(at(kOffset, part.bytes()), expected),
               "copy_to_host of {} is not what read gives",
               what);
  const auto untouched = [](std::byte byte) { return byte == std::byte{77}; };
  bench.expect(std::ranges::all_of(at(0, kOffset), untouched) &&
                   std::ranges::all_of(at(kOffset + part.bytes(), kBeyond), untouched),
               "copy_to_host of {} writes beside its place in the block",
               what);

  const auto expect_written = [&](const char* call) {
    bench.expect(bytes_of(device, part) == values, "{} of {} is not what read gives", call, what);
    device.write(part, expected.data());
    bench.expect(
        bytes_of(device, whole) == before, "{} of {} writes beside the tensor", call, what);
  };
  std::ranges::copy(values, at(kOffset, part.bytes()).begin());
  device.copy_from_host(bench.compute(), part, block, kOffset);
  expect_written("copy_from_host");
  device.write(part, values.data());
  expect_written("write");
}

/// What copies and their neighbours see of each other in stream order.
void check_order_of_copies(DeviceBench& bench) {
  Device& device = bench.device();
  const Tensor x = bench.floats(), first = bench.floats(), second = bench.floats();
  const HostBlock block = device.host_block(x.bytes());
  const auto values = block.as<float>(bench.kElements);
  for (int i = 1; i <= 10; ++i) {
    std::ranges::fill(values, 5.0F);
    if (i % 5 == 0) bench.slow(bench.compute(), milliseconds(1));
    device.copy_from_host(bench.compute(), first, block);
    bench.fill(bench.compute(), x, i);
    device.copy_to_host(bench.compute(), x, block);
    bench.fill(bench.compute(), x, -1);
    device.copy_from_host(bench.compute(), second, block);
    device.join(device.record(bench.compute()), bench.soon(), "copies in both directions");
    bench.expect_values("a host block after a copy to it", values, static_cast<float>(i));
    bench.expect_values("a copy from a block before a copy to it", first, 5);
    bench.expect_values("a copy from a block after a copy to it", second, static_cast<float>(i));
  }
  const std::vector<float> twos(static_cast<std::size_t>(x.elements()), 2);
  bench.fill(bench.compute(), x, 1);
  device.write(x, twos.data());
  bench.add(bench.compute(), x, x, first);
  bench.expect_values("a sum of what the host wrote", first, 4);
}

void check_refused(DeviceBench& bench) {
  Device& device = bench.device();
  const Tensor x = bench.floats(bench.compute(), {4, 6, 8}, DType::fp32);
  const Tensor scattered = x.slice(1, 0, 3).slice(2, 0, 4);
  const HostBlock block = device.host_block(x.bytes());
  const auto refuse = [&](std::string_view what, const Tensor& t, const HostBlock& b, i64 offset) {
    bench.expect_error(fmt::format("copy_to_host {}", what), "copy_to_host", [&] {
      device.copy_to_host(bench.compute(), t, b, offset);
    });
    bench.expect_error(fmt::format("copy_from_host {}", what), "copy_from_host", [&] {
      device.copy_from_host(bench.compute(), t, b, offset);
    });
  };
  refuse("over the end of the block", x, block, 1);
  refuse("before the block", x, block, -4);
  refuse("without a block", x, HostBlock(), 0);
  refuse("of an undefined tensor", Tensor(), block, 0);
  refuse("of rows at two distances", scattered, block, 0);
  const auto other = bench.another();
  refuse("with another device's block", x, other->host_block(x.bytes()), 0);
}

}  // namespace

void check_copies(DeviceBench& bench) {
  Stream& stream = bench.compute();
  for (const DType dtype : {DType::fp64,
                            DType::fp32,
                            DType::fp16,
                            DType::bf16,
                            DType::i64,
                            DType::i32,
                            DType::u8,
                            DType::boolean}) {
    const Tensor whole = bench.floats(stream, {7, 5}, dtype);
    check_part(bench, whole, whole);
    check_part(bench, whole, whole.slice(1, 1, 3));
  }
  const Tensor cube = bench.floats(stream, {4, 6, 8}, DType::fp32);
  for (const Tensor& part : {cube.slice(0, 1, 2),
                             cube.slice(1, 2, 3),
                             cube.slice(2, 7, 1),
                             cube.slice(0, 3, 1).slice(2, 1, 2),
                             cube.slice(1, 0, 0)}) {
    check_part(bench, cube, part);
  }
  const Tensor scalar = bench.floats(stream, {}, DType::fp64);
  check_part(bench, scalar, scalar);
  const Tensor scattered = cube.slice(1, 0, 3).slice(2, 0, 4);
  const Bytes values = pattern(scattered.bytes(), 3);
  bench.device().write(scattered, values.data());
  bench.expect(bytes_of(bench.device(), scattered) == values,
               "read of rows at two distances is not what was written");
  check_order_of_copies(bench);
  check_refused(bench);
}

void check_errors(DeviceBench& bench) {
  Device& device = bench.device();
  const Tensor x = bench.floats();
  const std::vector<float> ones(static_cast<std::size_t>(x.elements()), 1);
  constexpr std::string_view kTask = "device_check.fails";
  struct Wait {
    std::string_view name;
    std::function<void(const Event& end)> call;
  };
  const Wait waits[] = {
      {"synchronize", [&](const Event&) { device.synchronize(bench.compute()); }},
      {"read", [&](const Event&) { bench.read(x); }},
      {"write", [&](const Event&) { device.write(x, ones.data()); }},
      {"join", [&](const Event& end) { device.join(end, bench.soon(), "a task that fails"); }},
      {"query",
       [&](const Event& end) {
         const Deadline until = bench.soon();
         while (!device.query(end) && std::chrono::steady_clock::now() < until) {
           std::this_thread::yield();
         }
         device.query(end);
       }},
  };
  for (const Wait& wait : waits) {
    device.write(x, ones.data());
    try {
      device.launch_host(bench.compute(), kTask, [] { fail("broken on purpose"); });
    } catch (const std::exception&) {
      continue;  // it ran at once: the caller knows what failed
    }
    const Event end = device.record(bench.compute());
    bench.fill(bench.compute(), x, 2);
    const std::string what = fmt::format("{} after a task that fails", wait.name);
    bench.expect_error(what, kTask, [&] {
      try {
        wait.call(end);
      } catch (const Error& error) {
        bench.expect(
            std::string_view(error.what()).find("broken on purpose") != std::string_view::npos,
            "the error of {} has lost the text of the failure: {}",
            what,
            error.what());
        throw;
      }
    });
    try {
      device.synchronize(bench.compute());
    } catch (const std::exception& error) {
      bench.expect(false, "the failure that {} threw is thrown again: {}", wait.name, error.what());
    }
    bench.fill(bench.compute(), x, 9);
    bench.expect_values("a tensor that was filled after a failure", x, 9);
  }
}

}  // namespace tessera::testing
