#pragma once
#include <memory>

#include "kernel/train/setup/run_setup.hpp"
#include "tessera/device.hpp"

namespace tessera {

/// FLOPs that the model needs for one token of a training step, whatever the layout: three times
/// those of a forward pass, because a backward pass makes two gradients with each product. What is
/// computed again counts once. `stands_for`: the device whose operations state their efforts
/// (`Args::effort`); an operation that states no FLOPs counts none.
double model_flops_per_token(const RunSetup& setup, const std::shared_ptr<Device>& stands_for);

}  // namespace tessera
