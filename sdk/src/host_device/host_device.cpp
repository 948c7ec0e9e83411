#include "tessera/device/host_device.hpp"

#include <utility>

#include "sdk/src/host_device/host_device_state.hpp"
#include "sdk/src/host_device/host_kernels.hpp"
#include "sdk/src/host_device/system_memory.hpp"
#include "tessera/device/doing.hpp"
#include "tessera/device/floating_point_mode.hpp"
#include "tessera/device/thread_team.hpp"
#include "tessera/log.hpp"
#include "tessera/parallel_for.hpp"
#include "tessera/random.hpp"

namespace tessera {
namespace {

/// Libraries that were loaded with the program, or before it, may have changed how this thread
/// computes, and its team would inherit that.
void compute_as_standard(std::string_view device) {
  const FloatingPointMode found = floating_point_mode(), standard = standard_floating_point();
  if (found == standard) return;
  set_floating_point_mode(standard);
  log_warning(
      "device \"{}\": a library of this process {} (LD_PRELOAD, or linked with -ffast-math?); that "
      "was undone in this thread",
      device,
      floating_point_change(standard, found));
}

}  // namespace

HostDevice::State::State(HostDevice& device,
                         std::string device_name,
                         const DeviceArguments& arguments)
    : name(std::move(device_name)),
      threads(arguments.threads),
      captures_follow(arguments.captures) {
  if (arguments.memory && arguments.memory->kind() != kHostMemory) {
    fail_config(
        "device \"{}\" keeps tensors in memory of kind \"{}\", and its communicator brings memory "
        "of kind \"{}\": choose a device and a communicator for one kind",
        name,
        kHostMemory,
        arguments.memory->kind());
  }
  CachingAllocator::Options options;
  DevicePool::Poison poison_pool;
  HostStream::Poison poison_arena;
  if (arguments.deferred_seed != 0) {
    const auto stream_name = fmt::format("deferred/{}", arguments.local_rank);
    deferred = std::make_unique<DeferredQueue>(random_key(arguments.deferred_seed, stream_name),
                                               kDeviceStreams);
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
  for (int index = 0; index < kDeviceStreams; ++index) {
    std::string stream(device_stream_name(index));
    streams.push_back(std::make_unique<HostStream>(device, index, std::move(stream), poison_arena));
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

void HostDevice::State::require_ready(std::string_view operation) {
  const FloatingPointMode now = floating_point_mode(), standard = standard_floating_point();
  require(now == standard,
          "before operation \"{}\" something {} in this thread (MXCSR or FPCR is {:#x}): code of a "
          "plugin or of a library that it calls; results would differ from thread to thread, so it "
          "must put back what it found",
          operation,
          floating_point_change(standard, now),
          now.vectors);
  if (team_started) return;
  start_team(threads);
  team_started = true;
}

void HostDevice::State::record_launch(Stream& stream,
                                      const Kernel& kernel,
                                      const void* args,
                                      Pool& from) {
  const LaunchRequirements setup =
      capture->require_launch(stream, kernel, args, launched, &from == pool.get(), name);
  const LaunchWorkspace workspace(from, setup.workspace_bytes, stream);
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

HostDevice::HostDevice(std::string name, const DeviceArguments& arguments, std::vector<Kernel> own)
    : state_(std::make_unique<State>(*this, std::move(name), arguments)) {
  set_parallel_threads(arguments.threads);
  compute_as_standard(state_->name);
  state_->kernels.add(std::move(own), "own");
  state_->kernels.add_registered(arguments, state_->name, kHostMemory);
  state_->kernels.add(host_kernels(), "of every host device");
}

HostDevice::~HostDevice() = default;

std::string_view HostDevice::name() const { return state_->name; }
int HostDevice::threads() const { return state_->threads; }
Pool& HostDevice::pool() { return *state_->pool; }
MemoryStats HostDevice::memory() const {
  MemoryStats stats = state_->pool->allocator().stats();
  stats.host_blocks = *state_->host_bytes;
  stats.system_calls += state_->host_blocks_made;
  return stats;
}
void HostDevice::reset_peaks() { state_->pool->allocator().reset_peaks(); }
Stream& HostDevice::stream() { return *state_->streams[0]; }
Stream& HostDevice::comm_stream(CommLane lane) {
  return *state_->streams[1 + static_cast<std::size_t>(lane)];
}
bool HostDevice::capturing() const { return state_->capture != nullptr; }

const Kernel* HostDevice::find(std::string_view operation) const {
  return state_->kernels.find(operation);
}

void HostDevice::launch(Stream& stream, const Kernel& kernel, const void* args, Pool& pool) {
  State& state = *state_;
  if (state.capture) {
    state.captured([&] { state.record_launch(stream, kernel, args, pool); });
    return;
  }
  const Doing doing("operation", kernel.operation);
  state.require_ready(kernel.operation);
  const LaunchRequirements setup = kernel.prepare ? kernel.prepare(args) : LaunchRequirements();
  const LaunchWorkspace workspace(pool, setup.workspace_bytes, stream);
  if (state.deferred) {
    state.deferred->push(stream, HostTask::launch(kernel, args, workspace.address()));
  } else {
    kernel.launch(args, workspace.address(), stream);
  }
  if (state.captures_follow) state.launched.add(kernel, args);
}

void HostDevice::launch_host(Stream& stream, std::string_view name, std::function<void()> task) {
  state_->launch_host(stream, name, std::move(task), HostTask::Waits::no);
}

void HostDevice::launch_host_wait(Stream& stream,
                                  std::string_view name,
                                  std::function<void()> task) {
  state_->launch_host(stream, name, std::move(task), HostTask::Waits::for_ranks);
}

void HostDevice::begin_capture(Stream& stream) {
  state_->refuse_in_capture("begin_capture(\"{}\")", stream.name());
  require(state_->captures_follow,
          "begin_capture(\"{}\") on device \"{}\", which was made for a run without captures: set "
          "DeviceArguments::captures",
          stream.name(),
          state_->name);
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

void HostDevice::on_replay(ReplayTask task) {
  require(capturing(), "on_replay without begin_capture");
  state_->capture->on_replay(std::move(task));
}

void HostDevice::replay(Graph& graph, Stream& stream) {
  State& state = *state_;
  state.refuse_in_capture("replay of a graph");
  state.require_ready("replay of a graph");
  const auto* software = dynamic_cast<SoftwareGraph*>(&graph);
  require(software && &software->device() == this,
          "device \"{}\" cannot replay a graph that it did not capture",
          state.name);
  software->before_replay(stream);
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
  software->after_replay(stream);
}

}  // namespace tessera
