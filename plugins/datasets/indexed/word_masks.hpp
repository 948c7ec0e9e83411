#pragma once
#include <span>
#include <vector>

#include "numpy_draws.hpp"
#include "tessera/data.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// What masking needs of a tokenizer and of the configuration.
struct MaskRules {
  /// Throws ConfigError naming the roles that the tokenizer has no token for.
  MaskRules(const Tokenizer& tokenizer, double probability, i64 ngrams);

  i64 cls = 0, sep = 0, mask = 0, pad = 0;
  std::vector<bool> continues;  ///< by id: its token is a later piece of a word
  double probability = 0.15;
  /// Bounds of a draw in [0, 1) below which so many words are masked: runs of n words have the
  /// weight 1/n.
  std::vector<double> bounds;

  i64 vocabulary() const { return static_cast<i64>(continues.size()); }
  /// How many tokens are masked at most of a sample of `tokens`, special ones among them, that has
  /// `target`; not always a whole number.
  double most(i64 tokens, i64 target) const;
};

/// Masks words of a sample as Megatron-LM does (core/datasets/masked_dataset.py, bert_dataset.py;
/// whole words of Devlin et al. 2018, runs of words of Joshi et al. 2020): words in a random order,
/// each with a drawn number of those after it, fewer where that is too many tokens; passed over
/// where one does not fit or is masked. Of the tokens 80 % become [MASK], 10 % any token, 10 %
/// stay.
///
/// `tokens` are those of a sample, without padding; of each that is masked `masked` is 1 afterwards
/// and `original` its token, of others 0. Draws: NumpyDraws of std::mt19937, PhiloxWords.
template <class Draws>
void mask_words(const MaskRules& rules,
                i64 target,
                Draws& draws,
                std::span<i64> tokens,
                std::span<i64> original,
                std::span<u8> masked);

}  // namespace tessera
