#pragma once
#include "tessera/plugin.hpp"

namespace tessera::testing {

/// Components named "mutant_…" that do what the shipped ones do in 16 bits, and with `mistake` set
/// are less precise than they must be, or treat the loss scale wrongly.
void register_precision_mutants(Registrar& registrar);

/// A step_scalars for `reference` that leaves the loss scale in the norm.
void register_scaled_norm(Registrar& registrar);

}  // namespace tessera::testing
