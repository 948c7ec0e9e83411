#include "tessera/plugin.hpp"

#include "lion.hpp"

TESSERA_PLUGIN(lion, "0.1.0", "Lion update rule") {
  registrar.add<tessera::UpdateRule, tessera::Lion>(
      "lion", "Lion (Chen et al. 2023): steps by the sign of a mixed momentum, one state tensor.");
  registrar.add_kernel("host", tessera::lion_kernel());
#ifdef TESSERA_HAVE_CUDA
  registrar.add_kernel("cuda", tessera::lion_gpu_kernel());
#endif
}
