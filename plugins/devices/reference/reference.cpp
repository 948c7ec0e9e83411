#include "kernels.hpp"
#include "tessera/host_device.hpp"
#include "tessera/plugin.hpp"

namespace tessera::reference {
namespace {

std::vector<Kernel> kernels() {
  std::vector<Kernel> all = {make_matmul_kernel()};
  Plain::for_each([&]<class Args>() { all.push_back(make_kernel<Args>(&run<Args>)); });
  return all;
}

class ReferenceDevice : public HostDevice {
 public:
  using Config = NoConfig;
  ReferenceDevice(const Config&, const DeviceArguments& arguments)
      : HostDevice("reference", arguments, kernels()) {}
};

}  // namespace
}  // namespace tessera::reference

TESSERA_PLUGIN(reference, "0.1.0", "The device that says what operations mean") {
  registrar.add<tessera::Device, tessera::reference::ReferenceDevice>(
      "reference",
      "Plain loops in double precision: slow, obviously right, the oracle of every other device.");
}
