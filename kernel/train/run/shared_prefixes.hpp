#pragma once
#include <vector>

#include "tessera/evaluation.hpp"

namespace tessera {

/// Texts that follow each other and begin with the same tokens: choices after one context.
struct PrefixGroup {
  std::size_t first = 0, texts = 1;
  i64 rows = 0;  ///< rows that all of them begin with and none scores; 0 for a text alone
};

/// Cuts texts into groups, in their order. A text joins the group before it where at least half of
/// the rows of each are still shared, so that computing the shared ones once is worth the smaller
/// runs.
std::vector<PrefixGroup> prefix_groups(const std::vector<ScoredText>& texts);

}  // namespace tessera
