#pragma once
#include <memory>

#include "kernel/train/setup/make_rank.hpp"

namespace tessera {

/// Launches once, on zeros, each operation that a training step and a validation of this rank
/// launch, at its shapes and with its constants. A device with memory of its own loads code and
/// chooses plans at a first use, and frees memory when it runs out: beside a collective that waits
/// on the device that would wait for ever. So a run does it before its ranks' groups exist. It
/// leaves no trace, but for what is set up, and says what the groups will do.
/// `setup` outlives the function that this returns.
WarmUp warm_up_of(const RunSetup& setup);

}  // namespace tessera
