#pragma once
#include "tessera/plugin.hpp"

namespace tessera::nccl {

/// Registers the communicator.
void add(Registrar& registrar);

}  // namespace tessera::nccl
