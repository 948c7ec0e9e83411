#pragma once
#include <vector>

#include "kernel/train/gradients/gradient_sync.hpp"

namespace tessera {

/// Compares replicated parameters over the groups that hold copies: all forms that each of them
/// holds whole. All ranks call it. Throws Error naming the first parameter that differs, after
/// which `step`. Waits for the device.
void check_replicas(Context& cx,
                    const std::vector<Parameter*>& parameters,
                    const GradientSync& gradients,
                    i64 step);

}  // namespace tessera
