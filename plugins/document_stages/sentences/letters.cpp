#include "letters.hpp"

#include <algorithm>
#include <array>

namespace tessera {
namespace {

template <std::size_t N>
bool among(std::string_view character, const std::array<std::string_view, N>& list) {
  return std::ranges::find(list, character) != list.end();
}

// The code point of a character of UTF-8.
char32_t code_of(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  char32_t code = byte(0) & (0x7FU >> character.size());
  for (std::size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 0x3FU);
  return code;
}

}  // namespace

bool is_white_space(std::string_view character) {
  if (character.size() == 1)
    return character[0] == ' ' || (character[0] >= 9 && character[0] <= 13);
  const char32_t code = code_of(character);
  return code == 0x85 || code == 0xA0 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x3000;
}

bool is_lower_case(std::string_view character) {
  const char32_t c = code_of(character);
  const auto within = [&](char32_t first, char32_t last) { return c >= first && c <= last; };
  // Capitals and small letters take turns; in some ranges the small ones are even.
  const bool odd = c % 2 == 1;
  return within('a', 'z') || (within(0xDF, 0xFF) && c != 0xF7) || (within(0x100, 0x137) && odd) ||
         (within(0x138, 0x148) && !odd) || (within(0x149, 0x177) && odd) ||
         (within(0x17A, 0x17E) && !odd) || c == 0x17F || within(0x3AC, 0x3CE) ||
         within(0x430, 0x45F) || (within(0x460, 0x481) && odd) || (within(0x48A, 0x4BF) && odd) ||
         (within(0x4D0, 0x52F) && odd) || (within(0x1E00, 0x1EFF) && odd);
}

bool ends_sentence(std::string_view character) {
  if (character.size() == 1) {
    return character[0] == '.' || character[0] == '!' || character[0] == '?';
  }
  return character == "…" || is_wide_end(character);
}

bool is_wide_end(std::string_view character) {
  return among(character, std::to_array<std::string_view>({"。", "！", "？", "｡"}));
}

bool closes(std::string_view character) {
  constexpr auto kList = std::to_array<std::string_view>(
      {"\"", "'", ")", "]", "}", "”", "’", "»", "›", "」", "』", "）", "］", "】", "》", "〉"});
  return among(character, kList);
}

bool opens(std::string_view character) {
  constexpr auto kList = std::to_array<std::string_view>({"\"",
                                                          "'",
                                                          "(",
                                                          "[",
                                                          "{",
                                                          "“",
                                                          "‘",
                                                          "„",
                                                          "«",
                                                          "‹",
                                                          "¿",
                                                          "¡",
                                                          "「",
                                                          "『",
                                                          "（",
                                                          "［",
                                                          "【",
                                                          "《",
                                                          "〈"});
  return among(character, kList);
}

}  // namespace tessera
