#pragma once
#include <string_view>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// Hashes of all runs of five characters of a text, in order, as often as they occur; of a shorter
/// text one, of all of it. Characters are code points; bytes that are no UTF-8 count as U+FFFD. Two
/// different runs have one hash with a probability of 2^-64.
void shingle_hashes(std::string_view text, std::vector<u64>& out);

/// Those hashes, each once. One that is used again keeps its memory.
class ShingleSet {
 public:
  void assign(std::string_view text);
  /// |a ∩ b| / |a ∪ b| (Jaccard's index).
  static double jaccard(const ShingleSet& a, const ShingleSet& b);

 private:
  std::size_t place_of(u64 hash) const;  // in the table: where it is, or would be

  std::vector<u64> hashes_;  // in order, with those that come again; then each once
  std::vector<u64> table_;   // open addressing, at most half full; 0: nothing
};

}  // namespace tessera
