#include "tessera/io/words.hpp"

#include <algorithm>

#include "tessera/base/hash.hpp"
#include "tessera/io/utf8.hpp"

namespace tessera {
namespace {

bool separates(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) {
    const unsigned char c = byte(0);
    return !((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
             c == '_' || c >= 0x80);
  }
  if (character.size() == 2) {
    if (byte(0) == 0xC2) return true;
    return byte(0) == 0xC3 && (byte(1) == 0x97 || byte(1) == 0xB7);
  }
  if (character.size() != 3) return false;
  if (byte(0) == 0xE2) return byte(1) == 0x80 || (byte(1) == 0x81 && byte(2) <= 0xAF);
  if (byte(0) == 0xE3) return byte(1) == 0x80;
  return byte(0) == 0xEF && byte(1) == 0xBC && byte(2) <= 0x8F;
}

}  // namespace

std::vector<TextWord> words_of(std::string_view text) {
  std::vector<TextWord> words;
  std::string small;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string_view first = next_character(text.substr(at));
    if (separates(first)) {
      at += first.size();
      continue;
    }
    const std::size_t begin = at;
    while (at < text.size()) {
      const std::string_view character = next_character(text.substr(at));
      if (separates(character)) break;
      at += character.size();
    }
    small.assign(text.substr(begin, at - begin));
    std::ranges::transform(small, small.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    words.push_back({static_cast<i64>(begin), static_cast<i64>(at), hash64(small)});
  }
  return words;
}

u64 hash_words(const std::vector<TextWord>& words, i64 first, i64 count) {
  u64 hash = 0;
  for (i64 i = first; i < first + count; ++i) {
    // Multiplied by an odd number, so that the order of words counts.
    hash = (hash ^ words[static_cast<std::size_t>(i)].hash) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace tessera
