#pragma once
#include <string>
#include <vector>

#include "kernel/train/run/text_sampler.hpp"

namespace tessera {

/// A trained model on one rank, continuing token sequences. It needs no data.
class Generator {
 public:
  /// Loads the parameters of the checkpoint in `folder`. Configuration and plugins outlive it.
  /// `places`: sequences that it continues together, at most.
  Generator(const Resolved& config,
            const PluginHost& plugins,
            const std::string& folder,
            int threads,
            i64 places = 1);
  const Tokenizer& tokenizer() const { return *setup_.tokenizer; }
  TextSampler& sampler() { return sampler_; }
  /// Tokens that end a text.
  const std::vector<i32>& ends() const { return ends_; }

 private:
  RunSetup setup_;
  Rank rank_;
  PlacedModel model_;
  Evaluation evaluation_;
  TextSampler sampler_;
  std::vector<i32> ends_;
};

}  // namespace tessera
