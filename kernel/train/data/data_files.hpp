#pragma once
#include "tessera/data.hpp"

namespace tessera {

/// Throws Error, which names it, where a file of the dataset is no longer as it was when the
/// dataset was made: what was read since then may be other data than the run's fingerprint says.
void require_unchanged(const Dataset& dataset);

}  // namespace tessera
