#include "kernels.hpp"
#include "tessera/host_device.hpp"
#include "tessera/plugin.hpp"

namespace tessera::reference {
namespace {

std::vector<Kernel> kernels() {
  std::vector<Kernel> all;
  add_matmul_kernels(all);
  add_norm_kernels(all);
  add_elementwise_kernels(all);
  add_dropout_kernels(all);
  add_copy_kernels(all);
  add_embedding_kernels(all);
  add_attention_kernels(all);
  add_attention_merge_kernels(all);
  add_attention_backward_kernels(all);
  add_cross_entropy_kernels(all);
  add_update_kernels(all);
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
