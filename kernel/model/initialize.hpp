#pragma once
#include <vector>

#include "kernel/model/owned_values.hpp"
#include "tessera/base/buffer.hpp"
#include "tessera/device/device.hpp"
#include "tessera/parameter.hpp"

namespace tessera {

/// Writes a parameter's initial values: Philox key (seed, logical name), counter = logical element,
/// so that they do not depend on the layout; padding is zero. `main` is what this rank has of the
/// main values; the compute form is written as a whole.
void initialize(Parameter& parameter, const OwnedValues& main, u64 seed, Device& device);
/// The same of a parameter whose main values are all here.
void initialize(Parameter& parameter, u64 seed, Device& device);

/// One for each element.
std::vector<double> initial_values(const Buffer& buffer);

/// Copies main values to the compute form where that is memory of its own.
void refresh_compute(Parameter& parameter, const OwnedValues& main, Device& device);

}  // namespace tessera
