#pragma once
#include "tessera/device.hpp"
#include "tessera/parameter.hpp"

namespace tessera {

/// Writes a parameter's initial values: Philox key (seed, logical name), counter = logical element,
/// so that they do not depend on the layout; padding is zero.
void initialize(Parameter& parameter, u64 seed, Device& device);

/// Copies main values to the compute form where that is memory of its own.
void refresh_compute(Parameter& parameter, Device& device);

}  // namespace tessera
