#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernel/train/execution/evaluation.hpp"
#include "tessera/sequence_cache.hpp"

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
  /// sequences longer than sequence_length the model sees the end, at least half of that length,
  /// from a multiple of the half on: then only one call in so many moves the window.
  i32 next(const std::vector<i32>& tokens, const Sampling& sampling);
  /// What the model says of that token, for its whole vocabulary. If all phases are incremental and
  /// `tokens` begin as those of the last call, only what is new of them is run.
  std::vector<float> logits(const std::vector<i32>& tokens);

 private:
  bool incremental() const;

  RunSetup setup_;
  Rank rank_;
  PlacedModel model_;
  Evaluation evaluation_;
  std::unique_ptr<SequenceCache> cache_;  ///< none: some phase needs whole sequences
  std::vector<i32> kept_;                 ///< the tokens whose rows it holds
};

}  // namespace tessera
