#pragma once
#include "tessera/plugin.hpp"

namespace tessera::testing {

/// "mutant_context_attention": attention over a context-parallel group in a few plain steps, with
/// the mistakes that cutting a sequence invites.
void register_context_mutants(Registrar& registrar);

}  // namespace tessera::testing
