#pragma once
#include "tessera/plugin.hpp"

namespace tessera::testing {

/// Components named "mutant_…" with the mistakes that put-off, repeated and distributed work
/// invites: recomputed phases, split backward passes, layers on stages.
void register_pipeline_mutants(Registrar& registrar);

}  // namespace tessera::testing
