#include "shingles.hpp"

#include <algorithm>
#include <array>

#include "tessera/io/utf8.hpp"

namespace tessera {
namespace {

constexpr u64 kBitsOfCharacter = 21;

u32 take_character(std::string_view& text) {
  const std::size_t length = character_length(text);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  u32 out = 0xFFFD;
  if (length == 1) out = byte(0);
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

std::vector<u64> shingle_set(std::string_view text) {
  std::vector<u64> set;
  shingle_hashes(text, set);
  std::ranges::sort(set);
  set.erase(std::ranges::unique(set).begin(), set.end());
  return set;
}

double jaccard(const std::vector<u64>& a, const std::vector<u64>& b) {
  i64 both = 0;
  auto left = a.begin(), right = b.begin();
  while (left != a.end() && right != b.end()) {
    const u64 x = *left, y = *right;
    both += x == y ? 1 : 0;
    left += x <= y ? 1 : 0;
    right += y <= x ? 1 : 0;
  }
  const i64 either = static_cast<i64>(a.size() + b.size()) - both;
  return static_cast<double>(both) / static_cast<double>(either);
}

}  // namespace tessera
