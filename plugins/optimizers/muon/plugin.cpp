#include "tessera/plugin.hpp"

#include "muon.hpp"

TESSERA_PLUGIN(muon, "0.1.0", "Muon update rule") {
  registrar.add<tessera::UpdateRule, tessera::Muon>(
      "muon",
      "Muon (Jordan et al. 2024): matrices move along their orthogonalised momentum, all else by "
      "AdamW. AdamW updates the weights of experts too: all experts of a layer are one parameter "
      "of three dimensions, and only a parameter of two is orthogonalised. Needs whole matrices: "
      "under \"distributed\" each replica updates some of them, and what tensor parallelism cuts "
      "is gathered.");
  for (tessera::Kernel& kernel : tessera::muon_kernels()) {
    registrar.add_kernel("host", std::move(kernel));
  }
#ifdef TESSERA_HAVE_CUDA
  for (tessera::Kernel& kernel : tessera::muon_gpu_kernels()) {
    registrar.add_kernel("cuda", std::move(kernel));
  }
#endif
}
