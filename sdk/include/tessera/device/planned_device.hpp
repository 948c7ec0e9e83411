#pragma once
#include <string>

#include "tessera/device/host_device.hpp"
#include "tessera/device/kernel_table.hpp"

namespace tessera {

/// Stands for a device that is not there (DeviceArguments::planned): its name, its kind of memory
/// and its kernels, which say what they need and are never launched. A device's component makes one
/// where it is asked to, so that commands which compute nothing need no hardware.
class TESSERA_API PlannedDevice final : public HostDevice {
 public:
  PlannedDevice(std::string name,
                std::string memory_kind,
                const DeviceArguments& arguments,
                KernelTable kernels);

  std::string_view memory_kind() const override { return memory_kind_; }
  const Kernel* find(std::string_view operation) const override { return kernels_.find(operation); }
  /// Throws Error: there is nothing to run it.
  void launch(Stream& stream, const Kernel& kernel, const void* args, Pool& pool) override;

 private:
  std::string memory_kind_;
  KernelTable kernels_;
};

}  // namespace tessera
