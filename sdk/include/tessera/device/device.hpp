#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/base/collective.hpp"
#include "tessera/base/memory.hpp"
#include "tessera/device/host_block.hpp"
#include "tessera/device/stream.hpp"
#include "tessera/schema.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

struct Kernel;

/// The time until which the host waits.
using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();

/// Number of calls, since the device was made, in which the host may have waited for it.
struct HostCalls {
  i64 read = 0, write = 0, synchronize = 0, join = 0;
  bool operator==(const HostCalls&) const = default;
};

/// A unit of hardware, such as one GPU, on which a rank computes.
struct DeviceUnit {
  /// Tells it from every other unit (a UUID). Empty where ranks need none of their own. Two ranks
  /// with one unit are refused, unless `device.share` allows it.
  std::string id;
  /// For the first lines of a run: which it is, and its memory.
  std::string text;
  i64 memory = 0;  ///< bytes that it has, for all processes together; 0: unknown
};

/// The units that this process sees. A device of which each rank needs one has
/// `static DeviceUnits units()`, which answers without making a device and throws nothing. It is
/// called in a process that is started for it and ends with it: it may start a driver and open
/// libraries, and where it crashes or hangs, that is a reason in a message.
struct DeviceUnits {
  int count = 0;
  std::string text;  ///< one line: "2 GPUs are visible", or why none can be used
};

/// What a device is made from.
struct DeviceArguments {
  int local_rank = 0;   ///< of this rank among those of the host, below local_world
  int local_world = 1;  ///< ranks of the host
  /// Ranks that may have the same unit. Ranks spread over all units of the host first; then
  /// neighbours share one.
  int share = 1;
  int threads = 1;  ///< CPU threads of this rank
  /// Where slabs come from; the system when empty. One of another kind than the device's memory is
  /// a ConfigError.
  std::shared_ptr<MemorySource> memory;
  /// All kernels that plugins registered for the device of this name or for all devices with this
  /// kind of memory; the name's own where there are both. A device states its memory_kind(), so
  /// kernels for "host" never reach memory that the CPU does not address.
  std::function<std::vector<Kernel>(std::string_view device, std::string_view memory_kind)> kernels;
  /// False where the run captures nothing: begin_capture is then an error, and the device need not
  /// remember at which shapes operations were used.
  bool captures = true;
  /// True where nothing will be launched: the device need not exist. What is made says its name,
  /// kind of memory, kernels and their workspace; without drivers and libraries where that takes
  /// any (planned_device.hpp).
  bool planned = false;
  /// Test mode `deferred`: queue streams, run them in a seeded adversarial order, poison fresh and
  /// freed memory. 0 is off.
  u64 deferred_seed = 0;
};

/// A device of one rank. Plugin kind "device". All calls come from the rank's thread. An error of
/// asynchronous work names its operation and is thrown once, by the next call that waits or asks:
/// synchronize, read, write, join or query. What was queued at that time may have been dropped.
///
/// What waits or asks (these calls, elapsed) or takes memory (host_block) is an error under
/// capture, and spoils the capture. Functions that may wait are counted in host_calls().
class TESSERA_API Device {
 public:
  static constexpr std::string_view kKind = "device";
  using Arguments = DeviceArguments;

  virtual ~Device();
  virtual std::string_view name() const = 0;
  /// Kind of its tensors' memory: kHostMemory if the CPU addresses it, else a name of its own.
  virtual std::string_view memory_kind() const = 0;
  virtual int threads() const { return 1; }
  /// What decides the last bits of results, "avx512_bf16; products of fp32 by oneDNN": shown in the
  /// first lines of a run, and the same on all ranks of one, which are refused otherwise. So it
  /// names no single unit of hardware. Empty: the name says it all.
  virtual std::string hardware() const { return {}; }
  /// The unit that this rank has.
  virtual DeviceUnit unit() const { return {}; }

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

  /// Lets a library enqueue work in the order of `stream`; recorded under capture. `enqueue` gets
  /// the vendor's handle (Stream::native). It is called before this returns, on the rank's thread;
  /// it does not wait for the device, and what it throws passes through. `name` is for errors.
  /// Throws Error on a device whose streams have no handles.
  virtual void launch_library(Stream& stream,
                              std::string_view name,
                              const std::function<void(void* native)>& enqueue);

  /// An event at the end of what `stream` holds now. An event of a capture keeps no time:
  /// Timing::yes is an error there.
  virtual Event record(Stream& stream, Timing timing = Timing::no) = 0;
  /// Later work of `stream` runs after `event`. Under capture an event from outside is an error.
  virtual void wait(Stream& stream, const Event& event) = 0;
  /// Has the event been reached? Never blocks.
  virtual bool query(const Event& event) = 0;
  /// Blocks the host until the event has been reached. At the deadline throws an Error that says
  /// `what` it waited for; the device stays usable and the event may be joined again.
  virtual void join(const Event& event, Deadline deadline, std::string_view what) = 0;
  /// Seconds from `begin` to `end`, negative where the latter came first. Never blocks: throws
  /// Error unless both were recorded with Timing::yes and have been reached.
  virtual double elapsed(const Event& begin, const Event& end) = 0;
  /// Blocks the host until the stream has run dry.
  virtual void synchronize(Stream& stream) = 0;

  /// Copies a tensor's values to or from dense host memory, in the order of the compute stream, and
  /// blocks the host until that is done. Any strides.
  virtual void read(const Tensor& tensor, void* host) = 0;
  virtual void write(const Tensor& tensor, const void* host) = 0;

  /// Page-locked memory, aligned to 64 bytes. A request to the system: take blocks once, not in a
  /// step. `bytes` 0 is allowed.
  virtual HostBlock host_block(i64 bytes) = 0;
  /// Enqueues a copy of all elements, dense and row-major, to or from byte `offset` of the block,
  /// and returns. Recorded under capture: replay copies between the same addresses. host_copy says
  /// which strides are allowed. The tensor's memory is used in the order of `stream`.
  virtual void copy_to_host(Stream& stream,
                            const Tensor& tensor,
                            const HostBlock& block,
                            i64 offset = 0) = 0;
  virtual void copy_from_host(Stream& stream,
                              const Tensor& tensor,
                              const HostBlock& block,
                              i64 offset = 0) = 0;

  /// Declares what the host reads from a dense tensor where nothing is computed (a dry run): an
  /// assumption such as balanced routing, about this tensor and not about copies of it. Devices
  /// that compute ignore it. `host` holds the values, as for write.
  virtual void assume(const Tensor&, const void* /*host*/) {}
  /// This rank's load in such an assumption, relative to the mean of all ranks.
  virtual double assumed_imbalance() const { return 1; }

  /// From here until end_capture everything launched on `stream`, and on streams forked from and
  /// joined to it by events, is recorded; on other streams it is an error. Errors name the
  /// operation that cannot be captured, and spoil the capture: end_capture fails.
  virtual void begin_capture(Stream& stream) = 0;
  virtual std::unique_ptr<Graph> end_capture(Stream& stream) = 0;
  /// Drops a capture that failed; the device is usable again.
  virtual void abort_capture() = 0;
  virtual bool capturing() const = 0;
  /// Under capture: each replay of the graph calls `task`, in the order of these calls, whatever
  /// the device has reached. For what counts and watches replays, which must not cost the device a
  /// host task. A task must not launch; it may record events. The graph keeps it; what it refers to
  /// outlives the graph. Outside of a capture it is an error.
  virtual void on_replay(ReplayTask task) = 0;
  virtual void replay(Graph& graph, Stream& stream) = 0;

  const HostCalls& host_calls() const { return calls_; }
  /// `check` is called every few milliseconds while the host is blocked in this device, and at the
  /// end of each join, synchronize, read and write and of a query that says yes, also where nothing
  /// had to be waited for. It throws to end the
  /// wait. In a run it is the communicator's (Communicator::check): a rank does not wait for ever
  /// for a collective which the device waits for, nor does it take what an aborted one has left for
  /// a result. Empty: no check.
  void set_wait_check(std::function<void()> check) { wait_check_ = std::move(check); }

 protected:
  /// For implementations: one wait of the host. check() belongs in its loop.
  class TESSERA_API HostWait {
   public:
    /// `what` outlives the wait.
    HostWait(const Device& device, std::string_view what, Deadline deadline = kNoDeadline);
    /// Throws what the wait check throws, and an Error that names `what` after the deadline.
    void check();
    /// The wait is over, or there was none: throws what the wait check throws.
    void over() { device_.check_wait(); }

   private:
    const Device& device_;
    std::string_view what_;
    Deadline begin_, deadline_, next_check_;
  };
  /// HostWait::over() without a wait: at the end of a question.
  void check_wait() const {
    if (wait_check_) wait_check_();
  }
  HostCalls calls_;

 private:
  std::function<void()> wait_check_;
};

}  // namespace tessera
