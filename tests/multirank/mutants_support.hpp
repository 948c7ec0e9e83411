#pragma once
#include "tessera/plugin.hpp"

namespace tessera::testing {

/// Components named "mutant_…" that do what the shipped ones do, and with `mistake` set to one of
/// their choices go wrong under some layout, most while one rank still computes the same: the
/// mistakes that parallel training invites.
void register_mutants(Registrar& registrar);

}  // namespace tessera::testing
