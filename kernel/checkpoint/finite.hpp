#pragma once
#include <cstddef>
#include <span>

#include "tessera/types.hpp"

namespace tessera {

/// Are all of these values finite? Integers are.
bool all_finite(DType dtype, std::span<const std::byte> bytes);

}  // namespace tessera
