#pragma once
#include "kernel/config/dump.hpp"

namespace tessera {

/// Does a key that differs give a training another loss curve? Those of the model, the data, the
/// batch, the optimizer and so on; not the layout, what is saved, shown or checked. `run.steps`
/// only ends a curve, and where files are does not matter: their contents are compared.
bool shapes_curve(const Difference& difference);

}  // namespace tessera
