#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// Element `index` of dense values of any dtype.
double value_at(DType dtype, std::span<const std::byte> bytes, i64 index);
/// Floating values in another floating dtype, each rounded once, to nearest even.
std::vector<std::byte> converted(std::span<const std::byte> bytes, DType from, DType to);

}  // namespace tessera
