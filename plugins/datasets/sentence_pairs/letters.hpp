#pragma once
#include <string>
#include <string_view>

#include "tessera/types.hpp"

namespace tessera {

/// Kinds of characters as Python's re and str have them, of a text that is UTF-8. Beyond ASCII they
/// throw ConfigError where this build has no utf8proc.

/// Small letters, as str.lower() gives them, but for a sigma that ends a word.
std::string lower_case(std::string_view text);
/// \w but "_": a letter or a number. `character` is one, as next_character() gives it.
bool is_letter_or_number(std::string_view character);

}  // namespace tessera
