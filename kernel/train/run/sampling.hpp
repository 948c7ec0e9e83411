#pragma once
#include <vector>

#include "tessera/bounds.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// How the next token of a text is chosen. The steps have this order, that of transformers:
/// repetition penalty, temperature, top_k, top_p, min_p. Defaults change nothing.
struct Sampling {
  double temperature = 1;  ///< 0: always the most likely token
  u64 seed = 0;
  i64 top_k = kMostVocabulary;  ///< only the k most likely, and those as likely as the k-th
  double top_p = 1;  ///< only the fewest of the most likely that have this probability together
  double min_p = 0;  ///< none that is less likely than this share of the most likely one
  /// Divides the logits above 0 of tokens that the text has, multiplies the others (Keskar et al.
  /// 2019, §4.1).
  double repetition_penalty = 1;
};

/// Throws ConfigError naming the flag of `tessera generate` with a value that is out of bounds, or
/// that has no effect.
void check_sampling(const Sampling& sampling);

/// How likely each token is, relative to the most likely one, which has 1; 0: it is never chosen.
/// At temperature 0 only the first of the most likely is not 0. `text` has the tokens so far.
/// Throws Error where a logit is not finite.
std::vector<double> token_weights(const std::vector<float>& logits,
                                  const std::vector<i32>& text,
                                  const Sampling& sampling);

/// The token that `uniform` in [0, 1) chooses among weights, which may be 0 but not all.
i32 choose_token(const std::vector<double>& weights, double uniform);

/// What chooses a token: a function of the seed, the number of the prompt among those of a call,
/// from 0 on, and the token's position in its text alone.
double sampling_number(u64 seed, i64 prompt, i64 position);

}  // namespace tessera
