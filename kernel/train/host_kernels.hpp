#pragma once
#include "tessera/plugin.hpp"

namespace tessera {

/// Kernels of the trainer's own bookkeeping, for every device whose memory the CPU addresses.
void register_host_kernels(Registrar& registrar);

}  // namespace tessera
