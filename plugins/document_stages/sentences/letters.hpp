#pragma once
#include <cstddef>
#include <string_view>

namespace tessera {

/// What a character is to the rules of sentences. Each takes one as next_character() gives it.

bool is_white_space(std::string_view character);
/// Of the alphabets that have capitals: Latin, Greek, Cyrillic.
bool is_lower_case(std::string_view character);
/// ".", "!", "?", an ellipsis, and the full-width ones.
bool ends_sentence(std::string_view character);
/// Is it one after which East Asian scripts put no space?
bool is_wide_end(std::string_view character);
/// A quote or bracket that may stand between a sentence's mark and its end.
bool closes(std::string_view character);
/// One that may stand before a sentence's first letter.
bool opens(std::string_view character);

}  // namespace tessera
