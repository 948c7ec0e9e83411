#include "tessera/host_device.hpp"

#include <map>
#include <utility>

#include "kernel/tensor/deferred_queue.hpp"
#include "kernel/tensor/device_pool.hpp"
#include "kernel/tensor/host_stream.hpp"
#include "kernel/tensor/launch_signatures.hpp"
#include "kernel/tensor/software_graph.hpp"
#include "kernel/tensor/strided_copy.hpp"
#include "kernel/tensor/system_memory.hpp"
#include "tessera/error.hpp"
#include "tessera/parallel_for.hpp"
#include "tessera/random.hpp"

namespace tessera {
namespace {

using Kernels = std::map<std::string, Kernel, std::less<>>;

/// Adds kernels of one origin; those of earlier origins win.
void add_kernels(Kernels& kernels, std::vector<Kernel> more, std::string_view origin) {
  Kernels added;
  for (Kernel& kernel : more) {
    require(kernel.launch && kernel.args_bytes > 0 && kernel.tensors >= 0,
            "the kernel of operation \"{}\" ({}) is incomplete: make it with make_kernel",
            kernel.operation,
            origin);
    std::string operation = kernel.operation;
    const bool first = added.emplace(operation, std::move(kernel)).second;
    if (!first) fail_config("operation \"{}\" has two kernels ({})", operation, origin);
  }
  kernels.merge(added);
}

/// Workspace of one launch, released in stream order.
class Workspace {
 public:
  Workspace(Pool& pool, i64 bytes, Stream& stream) : pool_(pool) {
    if (bytes > 0) block_ = pool.allocate(bytes, Category::workspace, stream);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() {
    if (block_.address) pool_.release(block_);
  }
  void* address() const { return block_.address; }

 private:
  Pool& pool_;
  Block block_;
};

}  // namespace

struct HostDevice::State {
  State(HostDevice& device, std::string device_name, const DeviceArguments& arguments);

  /// Runs what a capture does or refuses; an error spoils the capture, as CUDA's does.
  template <class F>
  auto captured(F f) {
    try {
      return f();
    } catch (const std::exception& error) {
      capture->invalidate(error.what());
      throw;
    }
  }
  /// Throws when a capture is in progress.
  template <class... T>
  void refuse_in_capture(fmt::format_string<T...> what, T&&... values) {
    if (!capture) return;
    captured([&] {
      fail(
          "{} while capturing on stream \"{}\": a graph holds launches, host tasks and events "
          "only; do it before the capture or after its end",
          fmt::format(what, std::forward<T>(values)...),
          capture->origin().name());
    });
  }
  void record_launch(Stream& stream, const Kernel& kernel, const void* args, Pool& from);
  void launch_host(Stream& stream,
                   std::string_view task_name,
                   std::function<void()> task,
                   HostTask::Waits waits);
  /// Before the host touches a tensor's memory.
  void settle(const Device& device, const Tensor& tensor, std::string_view verb);

  std::string name;
  int threads;
  Kernels kernels;
  LaunchSignatures launched;
  std::unique_ptr<DeferredQueue> deferred;  // empty: work is done when a launch returns
  std::vector<std::unique_ptr<HostStream>> streams;
  std::unique_ptr<Capture> capture;  // while capturing
  u64 captures = 0;
  std::unique_ptr<DevicePool> pool;
};

HostDevice::State::State(HostDevice& device,
                         std::string device_name,
                         const DeviceArguments& arguments)
    : name(std::move(device_name)), threads(arguments.threads) {
  const std::string_view names[] = {"compute",
                                    comm_lane_name(CommLane::critical),
                                    comm_lane_name(CommLane::exchange),
                                    comm_lane_name(CommLane::bulk)};
  CachingAllocator::Options options;
  DevicePool::Poison poison_pool;
  HostStream::Poison poison_arena;
  if (arguments.deferred_seed != 0) {
    const auto stream_name = fmt::format("deferred/{}", arguments.local_rank);
    deferred = std::make_unique<DeferredQueue>(random_key(arguments.deferred_seed, stream_name),
                                               static_cast<int>(std::size(names)));
    options.mark = false;
    options.drain = [this] { deferred->drain_all(); };
    poison_pool = [this](Stream& stream, void* address, i64 bytes) {
      deferred->push(stream, HostTask::fill(address, bytes));
    };
    poison_arena = [this, poison_pool](Stream& stream, void* address, i64 bytes) {
      if (capture && capture->contains(stream)) {
        capture->add(stream, HostTask::fill(address, bytes));
      } else {
        poison_pool(stream, address, bytes);
      }
    };
  }
  for (const std::string_view stream : names) {
    const int index = static_cast<int>(streams.size());
    streams.push_back(
        std::make_unique<HostStream>(device, index, std::string(stream), poison_arena));
  }
  pool = std::make_unique<DevicePool>(
      arguments.memory ? arguments.memory : std::make_shared<SystemMemory>(),
      std::move(options),
      [this](i64 bytes, Category category) {
        refuse_in_capture(
            "allocation of {} bytes ({}) from the pool of device \"{}\", not the graph's own,",
            bytes,
            category_name(category),
            name);
      },
      std::move(poison_pool));
}

void HostDevice::State::record_launch(Stream& stream,
                                      const Kernel& kernel,
                                      const void* args,
                                      Pool& from) {
  const std::string what = fmt::format("operation \"{}\"", kernel.operation);
  capture->require_contains(stream, what);
  const bool seen = launched.seen(kernel, args);
  const Setup setup = seen && kernel.prepare ? kernel.prepare(args) : Setup();
  require(seen && !setup.first_use,
          "{} is used for the first time at these shapes ({}) while capturing on stream \"{}\": "
          "run one warm-up before the capture, in which libraries set themselves up",
          what,
          tensors_text(kernel, args),
          capture->origin().name());
  require(
      setup.workspace_bytes == 0 || &from != pool.get(),
      "{} takes {} bytes of workspace from the pool of device \"{}\", not the graph's own, while "
      "capturing on stream \"{}\": launch it with the pool that the graph keeps",
      what,
      setup.workspace_bytes,
      name,
      capture->origin().name());
  const Workspace workspace(from, setup.workspace_bytes, stream);
  capture->add(stream, HostTask::launch(kernel, args, workspace.address()));
}

void HostDevice::State::launch_host(Stream& stream,
                                    std::string_view task_name,
                                    std::function<void()> task,
                                    HostTask::Waits waits) {
  if (capture) {
    captured([&] {
      capture->require_contains(stream, fmt::format("host task \"{}\"", task_name));
      capture->add(stream, HostTask::host(task_name, std::move(task), waits));
    });
  } else if (deferred) {
    deferred->push(stream, HostTask::host(task_name, std::move(task), waits));
  } else {
    task();
  }
}

void HostDevice::State::settle(const Device& device, const Tensor& tensor, std::string_view verb) {
  refuse_in_capture("host {} of a tensor ({})", verb, tensor);
  require(tensor.defined(), "host {} of an undefined tensor", verb);
  require(&tensor.device() == &device,
          "host {} of a tensor ({}) that is not on device \"{}\"",
          verb,
          tensor,
          name);
  if (deferred) deferred->drain(*streams[0]);
}

HostDevice::HostDevice(std::string name, const DeviceArguments& arguments, std::vector<Kernel> own)
    : state_(std::make_unique<State>(*this, std::move(name), arguments)) {
  set_parallel_threads(arguments.threads);
  add_kernels(state_->kernels, std::move(own), "own");
  if (!arguments.kernels) return;
  for (const std::string_view target : {std::string_view(state_->name), std::string_view("host")}) {
    add_kernels(state_->kernels,
                arguments.kernels(target),
                fmt::format("registered for device \"{}\"", target));
  }
}

HostDevice::~HostDevice() = default;

std::string_view HostDevice::name() const { return state_->name; }
int HostDevice::threads() const { return state_->threads; }
Pool& HostDevice::pool() { return *state_->pool; }
MemoryStats HostDevice::memory() const { return state_->pool->allocator().stats(); }
void HostDevice::reset_peaks() { state_->pool->allocator().reset_peaks(); }
Stream& HostDevice::stream() { return *state_->streams[0]; }
Stream& HostDevice::comm_stream(CommLane lane) {
  return *state_->streams[1 + static_cast<std::size_t>(lane)];
}
bool HostDevice::capturing() const { return state_->capture != nullptr; }

const Kernel* HostDevice::find(std::string_view operation) const {
  const auto found = state_->kernels.find(operation);
  return found == state_->kernels.end() ? nullptr : &found->second;
}

void HostDevice::launch(Stream& stream, const Kernel& kernel, const void* args, Pool& pool) {
  State& state = *state_;
  if (state.capture) {
    state.captured([&] { state.record_launch(stream, kernel, args, pool); });
    return;
  }
  const Setup setup = kernel.prepare ? kernel.prepare(args) : Setup();
  const Workspace workspace(pool, setup.workspace_bytes, stream);
  if (state.deferred) {
    state.deferred->push(stream, HostTask::launch(kernel, args, workspace.address()));
  } else {
    kernel.launch(args, workspace.address(), stream);
  }
  state.launched.add(kernel, args);
}

void HostDevice::launch_host(Stream& stream, std::string_view name, std::function<void()> task) {
  state_->launch_host(stream, name, std::move(task), HostTask::Waits::no);
}

void HostDevice::launch_host_wait(Stream& stream,
                                  std::string_view name,
                                  std::function<void()> task) {
  state_->launch_host(stream, name, std::move(task), HostTask::Waits::for_ranks);
}

Event HostDevice::record(Stream& stream) {
  State& state = *state_;
  if (state.capture && state.capture->contains(stream)) return state.capture->record(stream);
  auto event = std::make_shared<HostEvent>();
  if (state.deferred) state.deferred->record(stream, event);
  return {event};
}

void HostDevice::wait(Stream& stream, const Event& event) {
  State& state = *state_;
  const std::shared_ptr<HostEvent> point = host_event(event);
  if (!point) return;  // a point before all work
  if (state.capture && (state.capture->contains(stream) || state.capture->recorded(*point))) {
    state.captured([&] { state.capture->wait(stream, *point); });
    return;
  }
  require(
      point->capture == 0,
      "stream \"{}\" waits for an event that was recorded in a capture: it names a point inside "
      "a graph; record an event after replay",
      stream.name());
  if (state.deferred) state.deferred->wait(stream, point);
}

void HostDevice::synchronize(Stream& stream) {
  state_->refuse_in_capture("synchronize(\"{}\")", stream.name());
  if (state_->deferred) state_->deferred->drain(stream);
}

void HostDevice::read(const Tensor& tensor, void* host) {
  state_->settle(*this, tensor, "read");
  copy_to_dense(tensor.arg(), host);
}

void HostDevice::write(const Tensor& tensor, const void* host) {
  state_->settle(*this, tensor, "write");
  copy_from_dense(tensor.arg(), host);
}

void HostDevice::begin_capture(Stream& stream) {
  state_->refuse_in_capture("begin_capture(\"{}\")", stream.name());
  state_->capture = std::make_unique<Capture>(
      ++state_->captures, stream, static_cast<int>(state_->streams.size()));
}

std::unique_ptr<Graph> HostDevice::end_capture(Stream& stream) {
  require(capturing(), "end_capture(\"{}\") without begin_capture", stream.name());
  require(&stream == &state_->capture->origin(),
          "end_capture(\"{}\") of a capture that began on stream \"{}\"",
          stream.name(),
          state_->capture->origin().name());
  return std::exchange(state_->capture, nullptr)->finish();
}

void HostDevice::abort_capture() { state_->capture.reset(); }

void HostDevice::replay(Graph& graph, Stream& stream) {
  State& state = *state_;
  state.refuse_in_capture("replay of a graph");
  const auto* software = dynamic_cast<SoftwareGraph*>(&graph);
  require(software && &software->device() == this,
          "device \"{}\" cannot replay a graph that it did not capture",
          state.name);
  std::vector<std::shared_ptr<HostEvent>> events(static_cast<std::size_t>(software->events()));
  for (const SoftwareGraph::Node& node : software->nodes()) {
    Stream& target = node.stream == software->origin()
                         ? stream
                         : *state.streams[static_cast<std::size_t>(node.stream)];
    if (!state.deferred) {
      if (node.task) node.task->run(target);
    } else if (node.task) {
      state.deferred->push(target, node.task);
    } else if (node.record >= 0) {
      auto& event = events[static_cast<std::size_t>(node.record)];
      event = std::make_shared<HostEvent>();
      state.deferred->record(target, event);
    } else {
      state.deferred->wait(target, events[static_cast<std::size_t>(node.wait)]);
    }
  }
}

}  // namespace tessera
