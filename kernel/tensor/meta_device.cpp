#include "kernel/tensor/meta_device.hpp"

#include <cstring>
#include <utility>

#include "kernel/tensor/unbacked_memory.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

DeviceArguments arguments_of(const Device& stands_for) {
  DeviceArguments arguments;
  arguments.threads = stands_for.threads();
  arguments.memory = std::make_shared<UnbackedMemory>();
  return arguments;
}

// Marks for ASan would need shadow memory for all that is only pretended.
CachingAllocator::Options without_marks() {
  CachingAllocator::Options options;
  options.mark = false;
  return options;
}

}  // namespace

MetaDevice::MetaDevice(std::shared_ptr<Device> stands_for, OnLaunch on_launch)
    : HostDevice(fmt::format("meta/{}", stands_for->name()), arguments_of(*stands_for), {}),
      stands_for_(std::move(stands_for)),
      on_launch_(std::move(on_launch)),
      pool_(std::make_shared<UnbackedMemory>(),
            without_marks(),
            [this](i64 bytes, Category category) {
              require(!capturing(),
                      "allocation of {} bytes ({}) from the pool of device \"{}\" while capturing",
                      bytes,
                      category_name(category),
                      name());
            },
            {}) {}

MetaDevice::~MetaDevice() = default;

const Kernel* MetaDevice::find(std::string_view operation) const {
  if (const auto known = kernels_.find(operation); known != kernels_.end()) return &known->second;
  const Kernel* real = stands_for_->find(operation);
  if (real == nullptr) return nullptr;
  Kernel& kernel = kernels_.emplace(operation, *real).first->second;
  kernel.launch = [this, &kernel](const void* args, void*, Stream&) {
    if (on_launch_) on_launch_(kernel, args);
  };
  return &kernel;
}

void MetaDevice::launch_host(Stream& stream, std::string_view name, std::function<void()>) {
  HostDevice::launch_host(stream, name, [] {});
}

void MetaDevice::launch_host_wait(Stream& stream, std::string_view name, std::function<void()>) {
  HostDevice::launch_host_wait(stream, name, [] {});
}

void MetaDevice::check(const Tensor& tensor, std::string_view verb) const {
  require(!capturing(), "host {} of a tensor ({}) while capturing", verb, tensor);
  require(tensor.defined() && &tensor.device() == this,
          "host {} of a tensor ({}) that is not on device \"{}\"",
          verb,
          tensor,
          name());
}

void MetaDevice::read(const Tensor& tensor, void* host) {
  check(tensor, "read");
  std::memset(host, 0, static_cast<std::size_t>(tensor.bytes()));
}

void MetaDevice::write(const Tensor& tensor, const void*) { check(tensor, "write"); }

}  // namespace tessera
