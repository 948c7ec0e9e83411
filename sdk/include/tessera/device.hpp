#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/memory.hpp"
#include "tessera/schema.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

class Device;
struct Kernel;

/// An ordered queue of launches. Created by and valid as long as its device.
class TESSERA_API Stream {
 public:
  Stream(Device& device, int index, std::string name);
  virtual ~Stream();
  Device& device() const { return device_; }
  int index() const { return index_; }  ///< 0 is the device's first stream
  const std::string& name() const { return name_; }
  /// The vendor's stream, for kernels of that device; nullptr on the CPU.
  virtual void* native() { return nullptr; }

 private:
  Device& device_;
  int index_;
  std::string name_;
};

/// A point in a stream's order. Copies name the same point.
struct Event {
  std::shared_ptr<void> state;  ///< owned by the device's implementation
};

/// Launches recorded between begin_capture and end_capture, replayed on the same addresses. Host
/// code that ran while recording is not replayed.
class TESSERA_API Graph {
 public:
  virtual ~Graph();
  virtual int launches() const = 0;
};

/// What the collectives of a process group are for. A device has one communication stream for each
/// lane, on which they start in launch order; lanes do not wait for each other, so that a sum which
/// the next operation reads is not held up by gradients that are needed at the end of the step.
enum class CommLane : u8 {
  critical,  ///< inside layers: the next operation reads the result
  exchange,  ///< activations and gradients between pipeline stages
  bulk,      ///< gradients, norms, statistics
};
inline constexpr int kCommLanes = 3;
/// "critical", "exchange", "bulk".
constexpr std::string_view comm_lane_name(CommLane lane) {
  constexpr std::string_view kNames[kCommLanes] = {"critical", "exchange", "bulk"};
  return kNames[static_cast<int>(lane)];
}

/// What a device is made from.
struct DeviceArguments {
  int local_rank = 0;                    ///< which of the host's devices, where there are several
  int threads = 1;                       ///< CPU threads of this rank
  std::shared_ptr<MemorySource> memory;  ///< where slabs come from; the system when empty
  /// All kernels that plugins registered for a device name or for "host".
  std::function<std::vector<Kernel>(std::string_view device)> kernels;
  /// Test mode `deferred` (DESIGN §4): queue streams, run them in a seeded adversarial order,
  /// poison fresh and freed memory. 0 is off.
  u64 deferred_seed = 0;
};

/// A device of one rank. Plugin kind "device". All calls come from the rank's thread. Errors of
/// asynchronous work are thrown by the next call that waits.
class TESSERA_API Device {
 public:
  static constexpr std::string_view kKind = "device";
  using Arguments = DeviceArguments;

  virtual ~Device();
  virtual std::string_view name() const = 0;
  virtual int threads() const { return 1; }

  /// The caching allocator: size classes, stream order, steady state without system calls.
  virtual Pool& pool() = 0;
  virtual MemoryStats memory() const = 0;
  virtual void reset_peaks() = 0;

  /// The kernel of an operation; nullptr when the device has none. Looked up when building only.
  virtual const Kernel* find(std::string_view operation) const = 0;

  virtual Stream& stream() = 0;  ///< the compute stream
  /// The stream on which the collectives of a lane start.
  virtual Stream& comm_stream(CommLane lane) = 0;

  /// Enqueues a kernel. `args` (kernel.args_bytes bytes) are copied. Allocates workspace from
  /// `pool` in stream order. Under capture: recorded, not run; the first use of an operation at
  /// its shapes is an error then.
  virtual void launch(Stream& stream, const Kernel& kernel, const void* args, Pool& pool) = 0;
  /// Enqueues a host task in stream order (a collective's post); recorded under capture. `name` is
  /// for errors and logs. The task must not allocate and must not wait for other ranks.
  virtual void launch_host(Stream& stream, std::string_view name, std::function<void()> task) = 0;
  /// The same for a task that may wait for other ranks (a collective's finish). They may be waiting
  /// for this rank, so everything that was launched before it, on any stream, runs before it.
  virtual void launch_host_wait(Stream& stream,
                                std::string_view name,
                                std::function<void()> task) = 0;

  virtual Event record(Stream& stream) = 0;
  /// Later work of `stream` runs after `event`. Under capture an event from outside is an error.
  virtual void wait(Stream& stream, const Event& event) = 0;
  /// Waits on the host until the stream has run dry. An error under capture.
  virtual void synchronize(Stream& stream) = 0;

  /// Copies a tensor's values to or from dense host memory and waits. Strided tensors are allowed.
  /// An error under capture.
  virtual void read(const Tensor& tensor, void* host) = 0;
  virtual void write(const Tensor& tensor, const void* host) = 0;

  /// From here until end_capture every launch on `stream`, and on streams forked from and joined
  /// to it by events, is recorded. Errors name the operation that cannot be captured.
  virtual void begin_capture(Stream& stream) = 0;
  virtual std::unique_ptr<Graph> end_capture(Stream& stream) = 0;
  /// Drops a capture that failed; the device is usable again.
  virtual void abort_capture() = 0;
  virtual bool capturing() const = 0;
  virtual void replay(Graph& graph, Stream& stream) = 0;
};

}  // namespace tessera
