#pragma once
#include <queue>
#include <vector>

#include "vocabulary.hpp"

namespace tessera {

/// Byte pair encoding (Sennrich et al. 2016, §3.2) of one word after the other. For one thread. A
/// word of n symbols takes time n log n, so a text without spaces is no trap.
class PairMerger {
 public:
  /// `vocabulary` outlives it.
  explicit PairMerger(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
  /// Appends the tokens of a word whose bytes or characters are `symbols`.
  void merge(const std::vector<i32>& symbols, std::vector<i32>& ids);

 private:
  struct Symbol {
    i32 id = 0;
    int left = 0, right = 0;  // neighbours; -1: none
  };
  // Two neighbours as they were when they were found.
  struct Pair {
    i32 rank = 0;
    int at = 0;  // the left one; of equal ranks the leftmost is made first
    i32 left = 0, right = 0, made = 0;
    bool operator>(const Pair& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  void find(int at);

  const Vocabulary& vocabulary_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> pairs_;
};

}  // namespace tessera
