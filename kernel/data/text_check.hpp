#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "tessera/types.hpp"

namespace tessera {

/// The first byte that is no UTF-8, from 0 on.
std::optional<i64> first_no_utf8(std::string_view text);

/// The text with U+FFFD for each byte that is no UTF-8.
std::string as_utf8(std::string_view text);

}  // namespace tessera
