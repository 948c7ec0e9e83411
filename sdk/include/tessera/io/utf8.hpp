#pragma once
#include <cstddef>
#include <string_view>

#include "tessera/types.hpp"

namespace tessera {

/// Bytes of the character that `text` starts with; 0 where it starts with no valid UTF-8 (RFC 3629:
/// no overlong forms, no surrogates, nothing beyond U+10FFFF) or is empty.
inline std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  if (text.empty()) return 0;
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80, high = first == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80, high = first == 0xF4 ? 0x8F : 0xBF;
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

/// What comes next in `text`: a character, or a byte that is no UTF-8. Empty at the end.
inline std::string_view next_character(std::string_view text) {
  const std::size_t length = character_length(text);
  return text.substr(0, length == 0 ? 1 : length);
}

/// Does the byte continue a character that begins before it, in a text that is UTF-8?
inline bool inside_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

/// Characters of a text that is UTF-8.
inline i64 characters_of(std::string_view text) {
  i64 characters = 0;
  for (const char c : text) characters += inside_character(c) ? 0 : 1;
  return characters;
}

/// Whether a terminal would act on the character instead of showing it: below a space, or DEL. Tabs
/// and line feeds are among them.
inline bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

/// Whether a terminal would act on a character, as next_character() gives it. Those are the control
/// characters C0, DEL and C1 (U+0080 to U+009F, also as single bytes that are no UTF-8), line
/// separators, and what reverses the direction of text.
inline bool acts_on_terminal(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return is_control(character[0]) || (byte(0) >= 0x80 && byte(0) < 0xA0);
  if (character.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (character.size() != 3 || byte(0) != 0xE2) return false;
  const bool separates = byte(1) == 0x80 && byte(2) >= 0xA8 && byte(2) <= 0xAE;
  const bool isolates = byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9;
  return separates || isolates;
}

/// The beginning of `text`, at most `bytes` of it, that ends between two characters.
inline std::string_view cut_text(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && inside_character(text[bytes])) --bytes;
  return text.substr(0, bytes);
}

}  // namespace tessera
