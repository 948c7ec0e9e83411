#pragma once
#include <vector>

#include "tessera/device/device.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// A floating tensor's values as doubles on the host, dense, and back (rounded once). For set-up,
/// checkpoints and tests; never inside a step.
std::vector<double> read_values(Device& device, const Tensor& tensor);
void write_values(Device& device, const Tensor& tensor, const std::vector<double>& values);

}  // namespace tessera
