#pragma once
#include <array>
#include <string_view>

#include "tessera/types.hpp"

namespace tessera {

inline constexpr int kBands = 32, kRows = 4;

/// 128 MinHashes of a text's shingles (Broder 1997) in 32 bands of four, each band hashed: of two
/// texts of Jaccard index J a band is equal with a probability of J^4, one at least with
/// 1 - (1 - J^4)^32: 99.98 % at J = 0.7, 98.8 % at 0.6, 23 % at 0.3.
std::array<u64, kBands> band_hashes(std::string_view text);

}  // namespace tessera
