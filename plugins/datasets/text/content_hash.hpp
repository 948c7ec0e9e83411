#pragma once
#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include "tessera/types.hpp"

namespace tessera {

/// 64-bit hash of a text, to notice that data changed (no defence against forgery). Checkpoints
/// hold it, so it stays what it is and is not hash64. Four lanes of multiply and rotate, so that a
/// core reads it at memory speed.
inline u64 content_hash(std::string_view text, u64 seed) {
  constexpr u64 kMultiply = 0x9E3779B97F4A7C15;  // odd, its bits spread: 2^64 / golden ratio
  std::array<u64, 4> lanes = {seed, ~seed, seed + kMultiply, seed ^ kMultiply};
  const auto absorb = [&lanes](const char* block) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      u64 word;
      std::memcpy(&word, block + 8 * i, 8);
      lanes[i] = std::rotl((lanes[i] ^ word) * kMultiply, 29);
    }
  };
  std::size_t at = 0;
  for (; at + 32 <= text.size(); at += 32) absorb(text.data() + at);
  char rest[32] = {};  // zeros up to a block: the size below tells them from zeros of the text
  text.copy(rest, sizeof rest, at);
  absorb(rest);
  u64 hash = text.size();
  for (const u64 lane : lanes) {
    hash = (hash ^ lane) * kMultiply;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace tessera
