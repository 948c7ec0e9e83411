#include "shingles.hpp"

#include <algorithm>
#include <bit>

#include "tessera/io/utf8.hpp"

namespace tessera {
namespace {

constexpr u64 kBitsOfCharacter = 21;

u32 take_character(std::string_view& text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) {
    const u32 ascii = byte(0);
    text.remove_prefix(1);
    return ascii;
  }
  const std::size_t length = character_length(text);
  u32 out = 0xFFFD;
  if (length == 2) out = (byte(0) & 0x1FU) << 6 | (byte(1) & 0x3FU);
  if (length == 3) out = (byte(0) & 0x0FU) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU);
  if (length == 4) {
    out = (byte(0) & 0x07U) << 18 | (byte(1) & 0x3FU) << 12 | (byte(2) & 0x3FU) << 6 |
          (byte(3) & 0x3FU);
  }
  text.remove_prefix(std::max<std::size_t>(length, 1));
  return out;
}

// The last step of MurmurHash3 (Appleby): a bijection.
u64 mixed(u64 x) {
  x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDU;
  x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53U;
  return x ^ (x >> 33);
}

}  // namespace

void shingle_hashes(std::string_view text, std::vector<u64>& out) {
  out.clear();
  out.reserve(text.size());
  constexpr u64 kThree = (u64{1} << (3 * kBitsOfCharacter)) - 1;
  constexpr u64 kTwo = (u64{1} << (2 * kBitsOfCharacter)) - 1;
  u64 old = 0, fresh = 0;  // the last five characters: three of them, and two
  i64 read = 0;
  while (!text.empty()) {
    const u64 character = take_character(text);
    old = (old << kBitsOfCharacter | fresh >> kBitsOfCharacter) & kThree;
    fresh = (fresh << kBitsOfCharacter | character) & kTwo;
    if (++read >= 5) out.push_back(mixed(old + mixed(fresh)));
  }
  // Its length tells it from a run of five that begins with zeros.
  if (read < 5) out.push_back(mixed(old + mixed(fresh) + static_cast<u64>(read) + 1));
}

std::size_t ShingleSet::place_of(u64 hash) const {
  const std::size_t mask = table_.size() - 1;
  std::size_t at = hash & mask;
  while (table_[at] != 0 && table_[at] != hash) at = (at + 1) & mask;
  return at;
}

void ShingleSet::assign(std::string_view text) {
  shingle_hashes(text, hashes_);
  table_.assign(std::bit_ceil(2 * hashes_.size()), 0);
  std::size_t distinct = 0;
  for (const u64 found : hashes_) {
    const u64 hash = found == 0 ? 1 : found;
    const std::size_t at = place_of(hash);
    if (table_[at] != 0) continue;
    table_[at] = hash;
    hashes_[distinct++] = hash;
  }
  hashes_.resize(distinct);
}

double ShingleSet::jaccard(const ShingleSet& a, const ShingleSet& b) {
  const auto both = static_cast<std::size_t>(
      std::ranges::count_if(b.hashes_, [&](u64 hash) { return a.table_[a.place_of(hash)] != 0; }));
  const std::size_t either = a.hashes_.size() + b.hashes_.size() - both;
  return static_cast<double>(both) / static_cast<double>(either);
}

}  // namespace tessera
