#pragma once
#include "kernel/config/dump.hpp"

namespace tessera {

/// Does a key that differs give a training another loss curve? Those of the model, the data, the
/// batch, the optimizer and so on; not the layout, what is saved, shown or checked. `run.steps`
/// only ends a curve, and where files are does not matter: their contents are compared.
bool shapes_curve(const Difference& difference);
/// A curve key that nobody has changed, and that has another value because it follows a key that
/// only ends a curve: lr.decay_steps follows run.steps.
bool follows_length(const Difference& difference);

}  // namespace tessera
