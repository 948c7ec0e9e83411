#pragma once
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "kernel/config/config.hpp"
#include "kernel/plugin/host.hpp"
#include "tessera/device/core_ops.hpp"
#include "tessera/testing/workbench.hpp"

// A device and its tensors, for benchmarks of operations. TESSERA_BENCH_DEVICE (cpu),
// TESSERA_BENCH_DTYPE (fp32) of the data, TESSERA_BENCH_THREADS (2) and TESSERA_BENCH_KEYS (of
// [device]) choose.
namespace tessera {

inline std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

/// The device and tensors on it; one for all benchmarks.
class Bench {
 public:
  static Bench& get() {
    static Bench bench;
    return bench;
  }

  Tensor random(const Shape& shape) { return random(shape, dtype_); }
  Tensor random(const Shape& shape, DType dtype) {
    return workbench_.random(shape, dtype, ++seed_);
  }
  Tensor zeros(const Shape& shape) { return zeros(shape, dtype_); }
  Tensor zeros(const Shape& shape, DType dtype) {
    return workbench_.tensor(
        shape, dtype, std::vector<double>(static_cast<std::size_t>(shape.elements()), 0));
  }
  Tensor values(const Shape& shape, DType dtype, const std::vector<double>& values) {
    return workbench_.tensor(shape, dtype, values);
  }
  /// Launches, without waiting.
  template <OperationArgs Args>
  void launch(const Operation<Args>& operation, const Args& args) {
    Context& cx = workbench_.context();
    operation.launch(*cx.stream, *cx.pool, args);
  }
  Device& device() { return *device_; }
  DType dtype() const { return dtype_; }

  /// Times launches; the FLOPs and bytes of one launch become rates.
  template <OperationArgs Args>
  void measure(benchmark::State& state, const Args& args) {
    const Operation<Args> operation(*device_);
    if (!operation.available()) {
      state.SkipWithError("the device has no such operation");
      return;
    }
    launch(operation, args);  // sets libraries up
    device_->synchronize(device_->stream());
    for (auto _ : state) {
      launch(operation, args);
      device_->synchronize(device_->stream());
    }
    const double launches = static_cast<double>(state.iterations());
    using benchmark::Counter;
    const Effort effort = device_->find(Args::kName)->effort(&args);
    state.counters["flops"] = Counter(effort.flops * launches, Counter::kIsRate);
    state.counters["bytes"] = Counter(effort.total_bytes() * launches, Counter::kIsRate);
  }

 private:
  Bench() : host_({plugins()}), device_(make_device()), workbench_(*device_) {}

  /// This program is build/bench/ops_bench, plugins are in build/plugins.
  static std::filesystem::path plugins() {
    return std::filesystem::canonical("/proc/self/exe").parent_path().parent_path() / "plugins";
  }
  std::shared_ptr<Device> make_device() {
    DeviceArguments arguments;
    arguments.threads = std::stoi(environment("TESSERA_BENCH_THREADS", "2"));
    arguments.kernels = [this](std::string_view device, std::string_view memory) {
      return host_.kernels(device, memory);
    };
    std::vector<std::string> sets;  // keys of [device], as "isa=avx2 bf16_matmul=onednn"
    std::istringstream keys(environment("TESSERA_BENCH_KEYS", ""));
    for (std::string key; keys >> key;) sets.push_back("device." + key);
    return host_.make<Device>(environment("TESSERA_BENCH_DEVICE", "cpu"),
                              *Config::parse("", "bench", sets).node("device"),
                              {},
                              arguments);
  }

  const DType dtype_ = parse_dtype(environment("TESSERA_BENCH_DTYPE", "fp32"));
  PluginHost host_;
  std::shared_ptr<Device> device_;
  testing::Workbench workbench_;
  u64 seed_ = 0;
};

}  // namespace tessera
