#pragma once
#include <array>
#include <string_view>

#include "tessera/types.hpp"

namespace tessera {

enum class AsciiKind : u8 { sign, letter, number, space, beyond };

constexpr std::array<AsciiKind, 256> kAsciiKinds = [] {
  std::array<AsciiKind, 256> kinds{};
  for (std::size_t c = 0; c < kinds.size(); ++c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) kinds[c] = AsciiKind::letter;
    if (c >= '0' && c <= '9') kinds[c] = AsciiKind::number;
    if (c == ' ' || (c >= '\t' && c <= '\r')) kinds[c] = AsciiKind::space;
    if (c >= 0x80) kinds[c] = AsciiKind::beyond;
  }
  return kinds;
}();

/// Where the word of GPT-2's pattern ends that begins at `begin`, a byte of `text`; 0 where that
/// depends on characters beyond ASCII. Most words need no more, and the pattern takes three times
/// as long.
constexpr std::size_t ascii_word_end(std::string_view text, std::size_t begin) {
  const auto kind = [&](std::size_t i) { return kAsciiKinds[static_cast<unsigned char>(text[i])]; };
  const std::size_t size = text.size();
  if (text[begin] == '\'') {
    const char next = begin + 1 < size ? text[begin + 1] : '\0';
    if (next == 's' || next == 't' || next == 'm' || next == 'd') return begin + 2;
    const std::string_view two = text.substr(begin + 1, 2);
    if (two == "re" || two == "ve" || two == "ll") return begin + 3;
  }
  std::size_t at = begin;
  if (text[at] == ' ' && at + 1 < size && kind(at + 1) != AsciiKind::space) ++at;
  const AsciiKind same = kind(at);
  while (at < size && kind(at) == same) ++at;
  if (same == AsciiKind::beyond || (at < size && kind(at) == AsciiKind::beyond)) return 0;
  // The last space before a word is that word's.
  if (same == AsciiKind::space && at < size && at - begin > 1) --at;
  return at;
}

}  // namespace tessera
