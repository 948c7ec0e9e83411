#pragma once
#include <memory>

#include "kernel/train/setup/run_setup.hpp"
#include "tessera/device/device.hpp"

namespace tessera {

/// FLOPs that the model needs for one token of a training step, whatever the layout: three times
/// those of a forward pass, because a backward pass makes two gradients with each product. What is
/// computed again counts once. `stands_for`: the device whose operations state their efforts
/// (`Args::effort`); an operation that states no FLOPs counts none.
double model_flops_per_token(const RunSetup& setup, const std::shared_ptr<Device>& stands_for);

/// FLOP/s of a rank's device at its peak, by run.hardware, in the type that the run computes in; 0
/// where no table is named. Throws ConfigError with file and key where the table has no such peak.
double peak_flops(const RunSetup& setup, const Device& device);

/// Whether products of fp32 tensors are made as Kernel::tf32 says.
bool rounds_to_tf32(const Device& device);

}  // namespace tessera
