#pragma once
#include "tessera/plugin.hpp"

namespace tessera::testing {

/// As register_mutants, for mixtures of experts: a router, a dispatcher around "alltoall", and an
/// optimizer that meddles with the experts' gradients or their norm.
void register_moe_mutants(Registrar& registrar);

}  // namespace tessera::testing
