#include "kernel/tensor/host_task.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace tessera {
namespace {

// 0x7FF7 repeated is NaN as f64, f32, f16 and bf16, and about the largest i64 and i32.
constexpr u64 kPoison = 0x7FF77FF77FF77FF7;

}  // namespace

std::shared_ptr<const HostTask> HostTask::launch(const Kernel& kernel,
                                                 const void* args,
                                                 void* workspace) {
  const auto bytes = static_cast<std::size_t>(kernel.args_bytes);
  Launch launch{&kernel, std::make_unique<std::byte[]>(bytes), workspace};
  std::memcpy(launch.args.get(), args, bytes);
  return std::shared_ptr<const HostTask>(new HostTask(std::move(launch)));
}

std::shared_ptr<const HostTask> HostTask::host(std::string_view name,
                                               std::function<void()> task,
                                               Waits waits) {
  return std::shared_ptr<const HostTask>(
      new HostTask(Host{std::string(name), std::move(task), waits}));
}

std::shared_ptr<const HostTask> HostTask::fill(void* address, i64 bytes) {
  return std::shared_ptr<const HostTask>(new HostTask(Fill{address, bytes}));
}

void HostTask::run(Stream& stream) const {
  if (const auto* launch = std::get_if<Launch>(&work_)) {
    launch->kernel->launch(launch->args.get(), launch->workspace, stream);
  } else if (const auto* host = std::get_if<Host>(&work_)) {
    host->task();
  } else {
    const Fill& fill = std::get<Fill>(work_);
    std::fill_n(static_cast<u64*>(fill.address), fill.bytes / 8, kPoison);
  }
}

}  // namespace tessera
