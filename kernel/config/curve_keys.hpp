#pragma once
#include "kernel/config/dump.hpp"

namespace tessera {

/// Does a key that differs give a training another loss curve? Keys of the model, the data, the
/// batch, the optimizer and so on do; those of the layout, of saving, output and checks do not.
/// `run.steps` only ends a curve, and where files are does not matter: their contents are compared.
bool shapes_curve(const Difference& difference);
/// Is it a curve key that nobody has changed, and that differs because it follows a key that only
/// ends a curve? lr.decay_steps follows run.steps.
bool follows_length(const Difference& difference);

}  // namespace tessera
