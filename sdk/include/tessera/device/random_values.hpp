#pragma once
#include "tessera/base/api.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// Writes values to measure with, uniform in [-1, 1), the same on every device. A GPU multiplies
/// equal values faster than what training multiplies, since fewer bits change. The values repeat
/// after 65,521, a prime, so that gigabytes are made soon and rows that are near are not alike.
/// `tensor` is dense and of a floating dtype; Error otherwise. Waits for the device. Called on the
/// rank's thread, not under capture.
TESSERA_API void write_random(const Tensor& tensor, u64 seed);

}  // namespace tessera
