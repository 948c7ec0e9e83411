#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernel/train/session.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// The tokenizer that a configuration's dataset uses, without making the dataset: its files may be
/// gone by the time a model is used. Throws ConfigError when the dataset has no tokenizer slot.
std::shared_ptr<Tokenizer> make_tokenizer(const Resolved& config, const PluginHost& plugins);

struct Sampling {
  double temperature = 1;  ///< 0: always the most likely token
  u64 seed = 0;
};

/// Index of the next token. `uniform` in [0, 1) chooses among the probabilities at the temperature.
i32 sample_token(const std::vector<float>& logits, double temperature, double uniform);

/// A trained model on one rank, continuing token sequences.
class Generator {
 public:
  /// Loads the parameters of the checkpoint in `folder`. What is pointed to outlives it.
  Generator(const Resolved& config,
            const PluginHost& plugins,
            const std::string& folder,
            int threads);
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// The token that follows. Of long sequences the model sees the last sequence_length tokens.
  i32 next(const std::vector<i32>& tokens, const Sampling& sampling);

 private:
  std::shared_ptr<Tokenizer> tokenizer_;
  Session session_;
};

}  // namespace tessera
