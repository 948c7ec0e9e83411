#pragma once
#include <string_view>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// Hashes of all runs of five characters of a text, in order, as often as they occur; of a shorter
/// text one, of all of it. Characters are code points; bytes that are no UTF-8 count as U+FFFD. Two
/// different runs have one hash with a probability of 2^-64.
void shingle_hashes(std::string_view text, std::vector<u64>& out);

/// The same, sorted and each once.
std::vector<u64> shingle_set(std::string_view text);

/// |a ∩ b| / |a ∪ b| of two such sets (Jaccard's index).
double jaccard(const std::vector<u64>& a, const std::vector<u64>& b);

}  // namespace tessera
