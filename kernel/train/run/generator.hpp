#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernel/train/execution/evaluation.hpp"

namespace tessera {

struct Sampling {
  double temperature = 1;  ///< 0: always the most likely token
  u64 seed = 0;
};

/// Index of the next token. `uniform` in [0, 1) chooses among the probabilities at the temperature.
i32 sample_token(const std::vector<float>& logits, double temperature, double uniform);

/// A trained model on one rank, continuing token sequences. It needs no data.
class Generator {
 public:
  /// Loads the parameters of the checkpoint in `folder`. Configuration and plugins outlive it.
  Generator(const Resolved& config,
            const PluginHost& plugins,
            const std::string& folder,
            int threads);
  const Tokenizer& tokenizer() const { return *setup_.tokenizer; }
  /// The token that follows, one that the tokenizer knows: the model's vocabulary may be larger. Of
  /// long sequences the model sees the last sequence_length tokens.
  i32 next(const std::vector<i32>& tokens, const Sampling& sampling);
  /// What the model says of that token, for its whole vocabulary.
  std::vector<float> logits(const std::vector<i32>& tokens);

 private:
  RunSetup setup_;
  Rank rank_;
  PlacedModel model_;
  Evaluation evaluation_;
};

}  // namespace tessera
