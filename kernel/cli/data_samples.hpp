#pragma once
#include "kernel/cli/commands.hpp"

namespace tessera {

/// Prints where the samples of a run's step come from.
void show_samples(const DataShowOptions& options);

}  // namespace tessera
