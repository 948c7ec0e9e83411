// The device `cpu` on the kernels of `amx`, whose tile registers are in memory.
#include <utility>

#include "registration.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/plugin.hpp"

namespace tessera::cpu {
namespace amx_emulated {
extern const Kernels kKernels;
}
namespace {

class EmulatedTiles : public HostDevice {
 public:
  using Config = NoConfig;
  EmulatedTiles(const Config&, const DeviceArguments& arguments)
      : HostDevice("test_amx_emulated", arguments, own_kernels()) {}

 private:
  static std::vector<Kernel> own_kernels() {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("f16c")) {
      fail("test_amx_emulated: this processor has no avx2");
    }
    return make_kernels(amx_emulated::kKernels, {}).kernels;
  }
};

}  // namespace
}  // namespace tessera::cpu

TESSERA_PLUGIN(test_amx_emulated, "0.1.0", "Kernels on tile registers that are in memory") {
  registrar.add<tessera::Device, tessera::cpu::EmulatedTiles>("test_amx_emulated",
                                                              "x86-64 processors with AVX2");
}
