#include "sdk/src/host_device/host_task.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "tessera/device/doing.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

// 0x7FF7 repeated is NaN as fp64, fp32, fp16 and bf16, and about the largest i64 and i32.
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

std::shared_ptr<const HostTask> HostTask::copy(std::string name,
                                               std::function<void()> task,
                                               std::shared_ptr<HostMemory> memory,
                                               std::byte* lands,
                                               i64 bytes) {
  return std::shared_ptr<const HostTask>(
      new HostTask(Copy{std::move(name), std::move(task), std::move(memory), lands, bytes}));
}

void HostTask::run(Stream& stream) const {
  try {
    work(stream);
  } catch (const Error& error) {
    using Kind = ErrorFrame::Kind;
    if (error.has(Kind::operation) || error.has(Kind::kernel)) throw;
    rethrow_with(Kind::operation, text());
  } catch (const std::exception&) {
    rethrow_with(ErrorFrame::Kind::operation, text());
  }
}

void HostTask::work(Stream& stream) const {
  if (const auto* launch = std::get_if<Launch>(&work_)) {
    const Doing doing("operation", launch->kernel->operation);
    launch->kernel->launch(launch->args.get(), launch->workspace, stream);
  } else if (const auto* host = std::get_if<Host>(&work_)) {
    host->task();
  } else if (const auto* copy = std::get_if<Copy>(&work_)) {
    copy->task();
  } else {
    const Fill& fill = std::get<Fill>(work_);
    poison_bytes(fill.address, fill.bytes);
  }
}

std::string HostTask::text() const {
  if (const auto* launch = std::get_if<Launch>(&work_)) {
    return fmt::format("operation \"{}\"", launch->kernel->operation);
  }
  if (const auto* host = std::get_if<Host>(&work_)) {
    return fmt::format("host task \"{}\"", host->name);
  }
  if (const auto* copy = std::get_if<Copy>(&work_)) return copy->name;
  return "fill";
}

std::shared_ptr<void> HostTask::enqueue() const {
  const auto* copy = std::get_if<Copy>(&work_);
  if (!copy) return nullptr;
  if (!copy->lands) return copy->memory->read_later();
  if (!copy->memory->read_by_queue()) poison_bytes(copy->lands, copy->bytes);
  return nullptr;
}

void poison_bytes(void* address, i64 bytes) {
  auto* at = static_cast<std::byte*>(address);
  for (i64 done = 0; done < bytes; done += 8) {
    std::memcpy(at + done, &kPoison, static_cast<std::size_t>(std::min<i64>(8, bytes - done)));
  }
}

}  // namespace tessera
