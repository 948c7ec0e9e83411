#pragma once
#include <vector>

#include "kernel/train/gradients/gradient_sync.hpp"

namespace tessera {

/// Compares the main values of replicated parameters over the groups that hold copies; the compute
/// values where main values are cut into shards. All ranks call it. Throws Error naming the first
/// parameter that differs, after which `step`. Waits for the device.
void check_replicas(Context& cx,
                    const std::vector<Parameter*>& parameters,
                    const GradientSync& gradients,
                    i64 step);

}  // namespace tessera
