#pragma once
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// What two neighbours become, by both ids. Open addressing, since it is asked for each pair of
/// each new word. Thread-safe once it is made.
class MergeTable {
 public:
  struct Merge {
    i32 rank = 0;  ///< lower ones are made first
    i32 id = 0;    ///< what it makes
  };
  struct Entry {
    i32 left = -1, right = -1;
    Merge merge;
  };

  MergeTable() : MergeTable(0) {}
  /// Room for so many.
  explicit MergeTable(std::size_t count) {
    std::size_t size = 2;
    while (size < 2 * count) size *= 2;
    entries_.resize(size);
  }
  /// A later merge of the same pair takes the place of the earlier.
  void put(const Entry& entry) { entries_[place(entry.left, entry.right)] = entry; }
  /// nullptr where these two neighbours stay two tokens.
  const Merge* find(i32 left, i32 right) const {
    const Entry& entry = entries_[place(left, right)];
    return entry.left < 0 ? nullptr : &entry.merge;
  }
  /// By left, then by right ids.
  std::vector<Entry> ordered() const;

 private:
  std::size_t place(i32 left, i32 right) const {
    const u64 key = static_cast<u64>(static_cast<u32>(left)) << 32 | static_cast<u32>(right);
    const u64 product = key * 0x9E3779B97F4A7C15U;
    const std::size_t mask = entries_.size() - 1;
    std::size_t at = (product ^ product >> 32) & mask;
    while (entries_[at].left >= 0 && (entries_[at].left != left || entries_[at].right != right)) {
      at = (at + 1) & mask;
    }
    return at;
  }

  std::vector<Entry> entries_;  // at most half full; a power of two
};

}  // namespace tessera
