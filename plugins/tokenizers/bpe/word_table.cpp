#include "word_table.hpp"

#include <cstring>
#include <utility>

namespace tessera {

namespace {

constexpr std::size_t kFirst = 1 << 8;  // entries of a new table: most texts are short

// Products of odd numbers spread what differs to the upper bits, of which the sum is folded.
std::size_t hash(const std::array<u64, 4>& key) {
  u64 sum = key[0] * 0x9E3779B97F4A7C15U;
  sum = (sum ^ (sum >> 29) ^ key[1]) * 0xBF58476D1CE4E5B9U;
  sum = (sum ^ (sum >> 32) ^ key[2] ^ (key[3] << 8 | key[3] >> 56)) * 0x94D049BB133111EBU;
  return static_cast<std::size_t>(sum ^ (sum >> 31));
}

// Without the call of memcmp that == of arrays is.
bool equal(const std::array<u64, 4>& a, const std::array<u64, 4>& b) {
  return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3])) == 0;
}

}  // namespace

void WordTable::clear() {
  entries_.assign(kFirst, {});
  size_ = 0;
}

WordTable::Entry& WordTable::place(const Key& key) {
  const std::size_t mask = entries_.size() - 1;
  std::size_t at = hash(key) & mask;
  while (!equal(entries_[at].key, key) && entries_[at].key[3] != 0) at = (at + 1) & mask;
  return entries_[at];
}

void WordTable::grow() {
  std::vector<Entry> old(2 * entries_.size());
  std::swap(old, entries_);
  for (const Entry& entry : old) {
    if (entry.key[3] != 0) place(entry.key) = entry;
  }
}

WordTable::Tokens& WordTable::find(std::string_view word) {
  Key key{};
  std::memcpy(key.data(), word.data(), word.size());
  key[3] |= static_cast<u64>(word.size()) << 56;
  Entry* entry = &place(key);
  if (entry->key[3] != 0) return entry->tokens;
  if (2 * (size_ + 1) > entries_.size()) {
    grow();
    entry = &place(key);
  }
  ++size_;
  entry->key = key;
  return entry->tokens;
}

}  // namespace tessera
