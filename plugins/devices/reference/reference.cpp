#include "kernels.hpp"
#include "tessera/device/host_device.hpp"
#include "tessera/plugin.hpp"

namespace tessera::reference {
namespace {

class ReferenceDevice : public HostDevice {
 public:
  using Config = NoConfig;
  ReferenceDevice(const Config&, const DeviceArguments& arguments)
      : HostDevice("reference", arguments, {}) {}
};

}  // namespace
}  // namespace tessera::reference

TESSERA_PLUGIN(reference, "0.1.0", "The device that says what operations mean") {
  using namespace tessera;
  using namespace tessera::reference;
  registrar.add<Device, ReferenceDevice>(
      "reference",
      "Plain loops in double precision: slow, obviously right, the oracle of every other device.");
  // Kernels are added by name, so that another device can take them (DeviceArguments).
  const auto add = [&](Kernel kernel) { registrar.add_kernel("reference", std::move(kernel)); };
  add(make_matmul_kernel());
  add(make_linear_weight_kernel());
  Plain::for_each([&]<class Args>() { add(make_kernel<Args>(&run<Args>)); });
}
