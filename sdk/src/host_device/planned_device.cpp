#include "tessera/device/planned_device.hpp"

#include <utility>

#include "tessera/error.hpp"

namespace tessera {
namespace {

/// Leaves out the kernels: those of host memory are not this device's.
DeviceArguments without_kernels(const DeviceArguments& arguments) {
  DeviceArguments own;
  own.threads = arguments.threads;
  return own;
}

}  // namespace

PlannedDevice::PlannedDevice(std::string name,
                             std::string memory_kind,
                             const DeviceArguments& arguments,
                             KernelTable kernels)
    : HostDevice(std::move(name), without_kernels(arguments), {}),
      memory_kind_(std::move(memory_kind)),
      kernels_(std::move(kernels)) {}

void PlannedDevice::launch(Stream&, const Kernel& kernel, const void*, Pool&) {
  fail("operation \"{}\" on device \"{}\", which is only planned: it has no hardware to run on",
       kernel.operation,
       name());
}

}  // namespace tessera
