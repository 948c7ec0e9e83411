// What other plugins bring for "cuda", the communicator of NCCL too, brought for "cuda_emulated" by
// the emulated device itself: the emulator is a part of one library.
#include "examples/plugin_operation/squared_relu.hpp"
#include "plugins/communicators/nccl/nccl.hpp"
#include "plugins/optimizers/lion/lion.hpp"
#include "plugins/optimizers/muon/muon_ops.hpp"
#include "tessera/plugin.hpp"

namespace tessera::cuda {

void add_kernels_of_plugins(Registrar& registrar) {
  nccl::add(registrar);
  registrar.add_kernel("cuda_emulated", lion_gpu_kernel());
  for (Kernel& kernel : muon_gpu_kernels()) {
    registrar.add_kernel("cuda_emulated", std::move(kernel));
  }
  for (Kernel& kernel : example::squared_relu_gpu_kernels()) {
    registrar.add_kernel("cuda_emulated", std::move(kernel));
  }
}

}  // namespace tessera::cuda
