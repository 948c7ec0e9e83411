#include "cuda_device.hpp"

#include <thread>
#include <utility>

#include "gpu_memory.hpp"
#include "registration.hpp"
#include "tessera/bounds.hpp"
#include "tessera/device/doing.hpp"
#include "tessera/device/planned_device.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::cuda {
namespace {

KernelTable kernels_for(std::vector<Kernel> own, const DeviceArguments& arguments) {
  KernelTable table;
  table.add(std::move(own), "own");
  table.add_registered(arguments, kDeviceName, kDeviceName);
  return table;
}

Fp32Products products_of(const DeviceConfig& config) {
  return config.fp32_products == "tf32" ? Fp32Products::tf32 : Fp32Products::fp32;
}

}  // namespace

void DeviceConfig::describe(Schema<DeviceConfig>& s) {
  s.field("index",
          &DeviceConfig::index,
          "which of the visible GPUs; \"auto\": the only one, or by the rank's number on its host")
      .at_least(0)
      .at_most(kMostRanks);
  s.field("fp32_products",
          &DeviceConfig::fp32_products,
          "products of fp32 tensors: fp32 as it is, or tf32, which rounds factors to 10 bits")
      .one_of({"fp32", "tf32"});
  s.field(
      "debug",
      &DeviceConfig::debug,
      "wait after each launch, so that an error names its operation, and fill fresh memory with "
      "NaN");
}

std::shared_ptr<Device> CudaDevice::make(const Config& config, const DeviceArguments& arguments) {
  if (!arguments.planned) return std::make_shared<CudaDevice>(config, arguments);
  return std::make_shared<PlannedDevice>(
      std::string(kDeviceName),
      std::string(kDeviceName),
      arguments,
      kernels_for(planned_kernels(products_of(config)), arguments));
}

CudaDevice::CudaDevice(const Config& config, const DeviceArguments& arguments)
    : threads_(arguments.threads),
      debug_(config.debug),
      captures_follow_(arguments.captures),
      pinned_(*this) {
  if (arguments.memory && arguments.memory->kind() != kDeviceName) {
    fail_config(
        "device \"{}\" keeps tensors in memory of kind \"{}\", and its communicator brings "
        "memory of kind \"{}\": choose a device and a communicator for one kind",
        kDeviceName,
        kDeviceName,
        arguments.memory->kind());
  }
  ChosenGpu gpu = choose_gpu(config.index, arguments);
  unit_ = std::move(gpu.unit);
  set_parallel_threads(arguments.threads);  // for datasets and other work on the host
  KernelSet set = make_kernels(products_of(config));
  hardware_ = fmt::format("{}; {}", gpu.hardware, set.hardware);
  kernels_ = kernels_for(std::move(set.kernels), arguments);

  for (int index = 0; index < kDeviceStreams; ++index) {
    const bool urgent = index > 0 && inside_layers(static_cast<CommLane>(index - 1));
    std::string stream(device_stream_name(index));
    streams_.push_back(std::make_unique<CudaStream>(*this, index, std::move(stream), urgent));
  }

  CachingAllocator::Options options;
  options.mark = false;  // not this process's memory
  options.slab_multiple = GpuMemory::kGranularity;
  options.drain = [this] {
    for (const auto& stream : streams_) {
      const auto end = recorded(*stream);
      HostWait wait(*this, "work that uses memory which it needs again");
      finish(*end, wait);
    }
  };
  DevicePool::Poison poison;
  if (debug_) {
    poison = [this](Stream& stream, void* address, i64 bytes) {
      if (capture_) return;
      // Destructors release memory. The call that an error comes from throws it.
      (void)cudaMemsetAsync(address, 0xff, static_cast<std::size_t>(bytes), handle(stream));
    };
  }
  pool_ = std::make_unique<DevicePool>(
      arguments.memory ? arguments.memory : std::make_shared<GpuMemory>(kDeviceName),
      std::move(options),
      [this](i64 bytes, Category category) {
        refuse_in_capture(
            "allocation of {} bytes ({}) from the pool of device \"{}\", not the graph's own,",
            bytes,
            category_name(category),
            kDeviceName);
      },
      std::move(poison));
}

CudaDevice::~CudaDevice() {
  abort_capture();
  for (const auto& stream : streams_) (void)cudaStreamSynchronize(stream->handle());
  tasks_->clear();
}

MemoryStats CudaDevice::memory() const {
  if (!capturing()) pinned_.collect();
  MemoryStats stats = pool_->allocator().stats();
  stats.host_blocks = pinned_.bytes();
  stats.system_calls += pinned_.made();
  return stats;
}

void CudaDevice::launch(Stream& stream, const Kernel& kernel, const void* args, Pool& pool) {
  const Doing doing("operation", kernel.operation);
  LaunchRequirements setup;
  if (capture_) {
    setup = captured([&] {
      return capture_->require_launch(
          stream, kernel, args, launched_, &pool == pool_.get(), kDeviceName);
    });
    ++capture_->parts.launches;
    capture_->add(stream);
  } else if (kernel.prepare) {
    setup = kernel.prepare(args);
  }
  const LaunchWorkspace workspace(pool, setup.workspace_bytes, stream);
  try {
    kernel.launch(args, workspace.address(), stream);
    if (debug_ && !capture_) {
      check(cudaStreamSynchronize(handle(stream)), "the work of this launch");
    }
  } catch (Error& error) {
    if (!debug_) tell_if_it_stays(error);
    error.add(ErrorFrame::Kind::operation, fmt::format("operation \"{}\"", kernel.operation));
    if (capture_) capture_->invalidate(error.what());
    throw;
  }
  last_launch_ = kernel.operation;
  if (captures_follow_ && !capture_) launched_.add(kernel, args);
}

void CudaDevice::tell_if_it_stays(const Error& error) {
  std::size_t free = 0, total = 0;
  if (told_that_ended_ || cudaMemGetInfo(&free, &total) == cudaSuccess) return;
  (void)cudaGetLastError();
  told_that_ended_ = true;
  const std::string advice =
      debug_ ? "" : "; device.debug = true waits for each and names the one that failed";
  throw Error(error).add(
      ErrorFrame::Kind::advice,
      fmt::format("nothing more runs on this GPU. Launched last was {}{}",
                  last_launch_.empty() ? "nothing" : fmt::format("\"{}\"", last_launch_),
                  advice));
}

void CudaDevice::launch_host(Stream& stream, std::string_view name, std::function<void()> run) {
  auto task = std::make_unique<HostTask>(std::string(name), std::move(run), tasks_);
  if (!capture_) return HostTask::launch(handle(stream), std::move(task));
  captured([&] {
    capture_->require_contains(stream, fmt::format("host task \"{}\"", name));
    capture_->add(stream);
    ++capture_->parts.launches;
    HostTask::record(handle(stream), *task);
    capture_->parts.tasks.push_back(std::move(task));
  });
}

void CudaDevice::launch_host_wait(Stream& stream,
                                  std::string_view name,
                                  std::function<void()> task) {
  for (const auto& other : streams_) {
    if (other.get() == &stream || (capture_ && !capture_->contains(*other))) continue;
    wait(stream, record(*other));
  }
  launch_host(stream, name, std::move(task));
}

void CudaDevice::launch_library(Stream& stream,
                                std::string_view name,
                                const std::function<void(void*)>& enqueue) {
  if (!capture_) return enqueue(stream.native());
  captured([&] {
    capture_->require_contains(stream, name);
    capture_->add(stream);
    ++capture_->parts.launches;
    enqueue(stream.native());
  });
}

void CudaDevice::begin_capture(Stream& stream) {
  refuse_in_capture("begin_capture(\"{}\")", stream.name());
  require(captures_follow_,
          "begin_capture(\"{}\") on device \"{}\", which was made for a run without captures: set "
          "DeviceArguments::captures",
          stream.name(),
          kDeviceName);
  // Not global: another thread's query of an event would spoil the capture.
  check(cudaStreamBeginCapture(handle(stream), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  capture_ = std::make_unique<CudaCapture>(++captures_, stream, static_cast<int>(streams_.size()));
}

std::unique_ptr<Graph> CudaDevice::end_capture(Stream& stream) {
  require(capturing(), "end_capture(\"{}\") without begin_capture", stream.name());
  require(&stream == &capture_->origin(),
          "end_capture(\"{}\") of a capture that began on stream \"{}\"",
          stream.name(),
          capture_->origin().name());
  try {
    capture_->require_complete();
  } catch (...) {
    abort_capture();
    throw;
  }
  GraphParts parts = std::move(capture_->parts);
  ReplayTasks at_replay = capture_->take_replay_tasks();
  capture_.reset();
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(handle(stream), &graph), "cudaStreamEndCapture");
  return std::make_unique<CudaGraph>(*this, graph, std::move(parts), std::move(at_replay));
}

void CudaDevice::abort_capture() {
  if (!capture_) return;
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(handle(capture_->origin()), &graph) != cudaSuccess) {
    (void)cudaGetLastError();  // it was invalid, which the caller knows
  }
  if (graph) (void)cudaGraphDestroy(graph);
  capture_.reset();
}

void CudaDevice::on_replay(ReplayTask task) {
  require(capturing(), "on_replay without begin_capture");
  capture_->on_replay(std::move(task));
}

void CudaDevice::replay(Graph& graph, Stream& stream) {
  refuse_in_capture("replay of a graph");
  auto* own = dynamic_cast<CudaGraph*>(&graph);
  require(own && &own->device() == this,
          "device \"{}\" cannot replay a graph that it did not capture",
          kDeviceName);
  const Doing doing("operation", "replay of a graph");
  own->before_replay(stream);
  told([&] { own->launch(handle(stream), std::make_shared<CudaEvent>(events_, Timing::no)); });
  own->after_replay(stream);
  last_launch_ = "replay of a graph";
  if (debug_) told([&] { check(cudaStreamSynchronize(handle(stream)), "a replay of a graph"); });
}

}  // namespace tessera::cuda
