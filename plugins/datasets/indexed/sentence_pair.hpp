#pragma once
#include <span>
#include <utility>

#include "tessera/types.hpp"

namespace tessera {

/// The halves of a sample of sentences.
struct SentencePair {
  std::span<const i64> first, second;
  bool swapped = false;  ///< the second one stood before the first
};

/// Cuts sentences in two between two of them, by a draw where there is a choice, and swaps the
/// halves half of the time. As Megatron-LM (core/datasets/bert_dataset.py). `ends` has each
/// sentence's end in `tokens`, of two sentences or more. Draws: see mask_words.
template <class Draws>
SentencePair draw_pair(std::span<const i64> tokens, std::span<const i64> ends, Draws& draws) {
  const std::size_t pivot = 1 + static_cast<std::size_t>(draws.at_most(ends.size() - 2));
  const auto middle = static_cast<std::size_t>(ends[pivot - 1]);
  SentencePair pair{tokens.first(middle), tokens.subspan(middle), draws.uniform() < 0.5};
  if (pair.swapped) std::swap(pair.first, pair.second);
  return pair;
}

/// Takes tokens from the longer half, each from its front or its back by a draw, until `target` are
/// left.
template <class Draws>
void shorten(SentencePair& pair, i64 target, Draws& draws) {
  const auto most = static_cast<std::size_t>(target);
  while (pair.first.size() + pair.second.size() > most) {
    auto& longer = pair.first.size() > pair.second.size() ? pair.first : pair.second;
    longer = draws.uniform() < 0.5 ? longer.subspan(1) : longer.first(longer.size() - 1);
  }
}

}  // namespace tessera
