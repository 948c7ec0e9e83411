#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "check.hpp"
#include "tessera/device/random_values.hpp"
#include "tessera/ops.hpp"
#include "tessera/testing/workbench.hpp"

namespace tessera::gpu_check {
namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Median seconds of one call, on the device's clock.
template <class F>
double seconds_of(Device& device, int times, F&& call) {
  for (int i = 0; i < 3; ++i) call();
  std::vector<double> taken;
  for (int i = 0; i < times; ++i) {
    const Event begin = device.record(device.stream(), Timing::yes);
    call();
    const Event end = device.record(device.stream(), Timing::yes);
    device.synchronize(device.stream());
    taken.push_back(device.elapsed(begin, end));
  }
  return median(taken);
}

void copy_rate(Device& device, bool quick) {
  testing::Workbench bench(device);
  Context& cx = bench.context();
  const i64 n = i64{1} << (quick ? 14 : 29);  // 2 GiB, forty times the cache
  const Tensor from = cx.empty({n}, DType::fp32), to = cx.empty({n}, DType::fp32);
  FillArgs fill{.out = from.arg(), .value = 1.5};
  ops::run(cx, fill);
  const double seconds = seconds_of(device, quick ? 1 : 10, [&] {
    CopyArgs copy{.x = from.arg(), .out = to.arg()};
    ops::run(cx, copy);
  });
  print(Json()
            .add("name", "copy")
            .add("unit", "GB/s, read and written")
            .add("value", 2.0 * static_cast<double>(from.bytes()) / seconds / 1e9));
}

void product_rate(Device& device, DType dtype, bool quick) {
  testing::Workbench bench(device);
  const i64 n = quick ? 64 : 8192;
  Context& cx = bench.context();
  const Tensor a = cx.empty({n, n}, dtype), b = cx.empty({n, n}, dtype);
  const Tensor out = cx.empty({n, n}, dtype);
  write_random(a, 1);
  write_random(b, 2);
  const double seconds = seconds_of(device, quick ? 1 : 10, [&] {
    MatmulArgs product{.a = a.arg(), .b = b.arg(), .bias = {}, .packed = {}, .out = out.arg()};
    ops::run(cx, product);
  });
  const auto side = static_cast<double>(n);
  print(Json()
            .add("name", fmt::format("product {}", dtype_name(dtype)))
            .add("unit", "TFLOP/s")
            .add("value", 2 * side * side * side / seconds / 1e12));
}

/// What a launch takes of the host, which goes on while the GPU works.
void launch_time(Device& device, bool quick) {
  testing::Workbench bench(device);
  Context& cx = bench.context();
  const Tensor small = bench.random({64}, DType::fp32, 1);
  std::vector<double> taken;
  constexpr int kLaunches = 400;  // less than a stream holds
  for (int i = 0; i < (quick ? 3 : 50); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < kLaunches; ++k) {
      ScaleArgs scale{.x = small.arg(), .out = small.arg(), .factor = 1};
      ops::run(cx, scale);
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    device.synchronize(device.stream());
    taken.push_back(seconds.count() / kLaunches);
  }
  Json line;
  line.add("name", "launch").add("unit", "us of the host").add("value", median(taken) * 1e6);
  if (!quick) line.add("at_most", 5);
  print(line);
}

}  // namespace

void versions(const Target& target) {
  const auto device = target.make();
  print(Json()
            .add("name", "device")
            .add("device", device->name())
            .add("hardware", device->hardware())
            .add("unit_id", device->unit().id)
            .add("unit_text", device->unit().text));
}

void rates(const Target& target) {
  const auto device = target.make();
  const bool quick = target.options().quick;
  copy_rate(*device, quick);
  product_rate(*device, DType::bf16, quick);
  product_rate(*device, DType::fp32, quick);
  launch_time(*device, quick);
}

}  // namespace tessera::gpu_check
