#include <string>
#include <utility>

#include "isa.hpp"
#include "registration.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/plugin.hpp"

namespace tessera::cpu {
namespace {

/// The device for training on processors. Memory, streams and graphs are HostDevice's.
class CpuDevice : public HostDevice {
 public:
  using Config = CpuConfig;
  CpuDevice(const Config& config, const DeviceArguments& arguments)
      : CpuDevice(arguments, kernels_of(config)) {}

  std::string hardware() const override { return hardware_; }

 private:
  static KernelSet kernels_of(const Config& config) {
    refuse_variables();
    return make_kernels(choose_kernels(config.isa), config);
  }
  CpuDevice(const DeviceArguments& arguments, KernelSet set)
      : HostDevice("cpu", arguments, std::move(set.kernels)), hardware_(std::move(set.hardware)) {}

  std::string hardware_;  // as the environment was when the device was made
};

}  // namespace
}  // namespace tessera::cpu

TESSERA_PLUGIN(cpu,
               "0.1.0",
               "Vector kernels of fp32, bf16 and fp16; matmul built-in, by oneDNN or by MKL") {
  registrar.add<tessera::Device, tessera::cpu::CpuDevice>(
      "cpu", "x86-64 processors; picks AMX, AVX-512, AVX2 or SSE2 when it starts");
}
