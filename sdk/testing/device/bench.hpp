#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../device_check.hpp"
#include "tessera/error.hpp"
#include "tessera/operation.hpp"
#include "tessera/ops/elementwise.hpp"

namespace tessera::testing {

/// One part of device_check: a fresh device, and where problems are noted.
class DeviceBench {
 public:
  DeviceBench(const MakeDevice& make_device, std::string part, std::string& problems);

  Device& device() { return *device_; }
  Stream& compute() { return device_->stream(); }
  /// Stands for all other streams but in the check of streams.
  Stream& comm() { return device_->comm_stream(CommLane::critical); }
  /// All of the device's streams: compute, and one for each lane.
  std::vector<Stream*> streams();
  std::shared_ptr<Device> another() { return make_device_({}); }
  const MakeDevice& make_device() const { return make_device_; }

  /// Notes a problem unless `holds`.
  template <class... T>
  void expect(bool holds, fmt::format_string<T...> problem, T&&... values) {
    if (!holds) note(fmt::format(problem, std::forward<T>(values)...));
  }
  /// Notes a problem unless `call` throws an Error whose text contains `mention`.
  void expect_error(std::string_view what,
                    std::string_view mention,
                    const std::function<void()>& call);

  static constexpr i64 kElements = 1000;
  /// An uninitialised fp32 tensor of kElements.
  Tensor floats() { return floats(compute()); }
  Tensor floats(Stream& stream) { return floats(stream, {kElements}, DType::fp32); }
  Tensor floats(Stream& stream, const Shape& shape, DType dtype);
  void fill(Stream& stream, const Tensor& out, double value);
  void add(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& out);
  /// "holds 3, not 4" when an element of an fp32 tensor or of fp32 values in memory differs.
  void expect_values(std::string_view what, const Tensor& tensor, float value);
  void expect_values(std::string_view what, std::span<const float> values, float value);
  std::vector<float> read(const Tensor& tensor);

  /// Blocks the stream for a while and then sets the flag. A stream that runs inline blocks the
  /// caller.
  struct Slow {
    std::shared_ptr<std::atomic<bool>> done = std::make_shared<std::atomic<bool>>(false);
    Event end;
  };
  Slow slow(Stream& stream, std::chrono::milliseconds duration, Timing timing = Timing::no);
  /// A deadline for what should not take long.
  static Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

 private:
  void note(const std::string& problem);

  const MakeDevice& make_device_;
  std::string part_;
  std::string& problems_;
  std::shared_ptr<Device> device_;
  Operation<FillArgs> fill_;
  Operation<AddArgs> add_;
};

/// The parts. Each takes a device of its own.
void check_streams(DeviceBench& bench);
void check_events(DeviceBench& bench);
void check_waits(DeviceBench& bench);
void check_times(DeviceBench& bench);
void check_counts(DeviceBench& bench);
void check_memory(DeviceBench& bench);
void check_lifetimes(DeviceBench& bench);
void check_host_blocks(DeviceBench& bench);
void check_copies(DeviceBench& bench);
void check_capture(DeviceBench& bench);
void check_refusals(DeviceBench& bench);
void check_replay(DeviceBench& bench);
void check_errors(DeviceBench& bench);
void check_kinds(DeviceBench& bench);

}  // namespace tessera::testing
