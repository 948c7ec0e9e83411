#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"

namespace tessera {

/// How many insertions, deletions, replacements and swaps of neighbours turn one into the other.
TESSERA_API int edit_distance(std::string_view a, std::string_view b);

/// The candidate at a distance of at most 2 that is nearest to `word` and still shares something
/// with it; the first of equals.
TESSERA_API std::optional<std::string> nearest(std::string_view word,
                                               const std::vector<std::string>& candidates);

}  // namespace tessera
