#include "pair_merger.hpp"

#include <limits>

#include "tessera/error.hpp"

namespace tessera {

void PairMerger::find(int at) {
  if (at < 0) return;
  const Symbol& symbol = symbols_[static_cast<std::size_t>(at)];
  if (symbol.right < 0) return;
  const i32 right = symbols_[static_cast<std::size_t>(symbol.right)].id;
  if (const Vocabulary::Merge* merge = vocabulary_.merge(symbol.id, right)) {
    pairs_.push({merge->rank, at, symbol.id, right, merge->id});
  }
}

void PairMerger::merge(const std::vector<i32>& symbols, std::vector<i32>& ids) {
  require(
      symbols.size() <= std::numeric_limits<int>::max(), "a word of {} symbols", symbols.size());
  const auto count = static_cast<int>(symbols.size());
  symbols_.clear();
  for (int i = 0; i < count; ++i) {
    symbols_.push_back({symbols[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  }
  for (int i = 0; i < count; ++i) find(i);
  while (!pairs_.empty()) {
    const Pair pair = pairs_.top();
    pairs_.pop();
    Symbol& left = symbols_[static_cast<std::size_t>(pair.at)];
    if (left.id != pair.left || left.right < 0) continue;  // it was merged since
    Symbol& right = symbols_[static_cast<std::size_t>(left.right)];
    if (right.id != pair.right) continue;
    left.id = pair.made;
    right.id = -1;
    left.right = right.right;
    if (left.right >= 0) symbols_[static_cast<std::size_t>(left.right)].left = pair.at;
    find(left.left);
    find(pair.at);
  }
  for (int at = count > 0 ? 0 : -1; at >= 0; at = symbols_[static_cast<std::size_t>(at)].right) {
    ids.push_back(symbols_[static_cast<std::size_t>(at)].id);
  }
}

}  // namespace tessera
