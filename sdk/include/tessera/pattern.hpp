#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"

namespace tessera {

/// Length of the item that a non-empty text begins with. Throws ConfigError with the reason, which
/// expand_pattern completes with the place, where it begins with none.
using PatternItem = std::function<std::size_t(std::string_view rest)>;

/// A row of items with repetitions, written out: "a (b c)*2 d*3" is a b c b c d d d. Spaces and
/// commas between items have no meaning. At most 100,000 items. Throws ConfigError with what is
/// wrong and at which character.
TESSERA_API std::vector<std::string> expand_pattern(std::string_view text, const PatternItem& item);

}  // namespace tessera
