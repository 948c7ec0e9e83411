#include "kernel/train/run/shared_prefixes.hpp"

#include <algorithm>

namespace tessera {

namespace {

i64 rows_of(const ScoredText& text) { return static_cast<i64>(text.tokens.size()) - 1; }

// Rows of a text before the first that is scored; 0 where none is.
i64 unscored(const ScoredText& text) { return text.first <= rows_of(text) ? text.first - 1 : 0; }

i64 shared(const ScoredText& a, const ScoredText& b) {
  return std::ranges::mismatch(a.tokens, b.tokens).in1 - a.tokens.begin();
}

}  // namespace

std::vector<PrefixGroup> prefix_groups(const std::vector<ScoredText>& texts) {
  std::vector<PrefixGroup> groups;
  i64 longest = 0;  // rows of a text of the last group
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const ScoredText& text = texts[i];
    if (!groups.empty()) {
      PrefixGroup& group = groups.back();
      const ScoredText& first = texts[group.first];
      const i64 before = group.texts > 1 ? group.rows : unscored(first);
      const i64 rows = std::min({before, unscored(text), shared(first, text)});
      const i64 most = std::max(longest, rows_of(text));
      if (rows > 0 && 2 * rows >= most) {
        group.rows = rows;
        ++group.texts;
        longest = most;
        continue;
      }
    }
    groups.push_back({.first = i});
    longest = rows_of(text);
  }
  return groups;
}

}  // namespace tessera
