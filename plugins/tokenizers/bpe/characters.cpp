#include <cstring>

#include "unicode.hpp"

namespace tessera {

std::size_t valid_length(std::string_view text) {
  std::size_t end = 0;
  for (;;) {
    u64 eight = 0;  // ASCII is looked at eight bytes at a time
    while (text.size() - end >= sizeof eight) {
      std::memcpy(&eight, text.data() + end, sizeof eight);
      if ((eight & 0x8080808080808080U) != 0) break;
      end += sizeof eight;
    }
    const std::size_t length = character_length(text.substr(end));
    if (length == 0) return end;
    end += length;
  }
}

Character first_character(std::string_view text) {
  if (text.empty()) return {};
  const std::size_t size = character_length(text);
  const auto byte = [&](std::size_t i) { return static_cast<u32>(static_cast<u8>(text[i])); };
  if (size == 0) return {Character::kNone, 1};
  if (size == 1) return {byte(0), 1};
  u32 code = byte(0) & (0x7FU >> size);
  for (std::size_t i = 1; i < size; ++i) code = code << 6 | (byte(i) & 0x3F);
  return {code, size};
}

Character last_character(std::string_view text) {
  for (std::size_t size = 1; size <= 4 && size <= text.size(); ++size) {
    const std::string_view end = text.substr(text.size() - size);
    if (character_length(end) == size) return first_character(end);
  }
  return {Character::kNone, text.empty() ? 0U : 1U};
}

bool is_white_space(const Character& character) {
  const u32 c = character.code;
  return (c >= '\t' && c <= '\r') || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace tessera
