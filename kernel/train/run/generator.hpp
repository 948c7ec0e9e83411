#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kernel/train/run/text_sampler.hpp"
#include "kernel/train/setup/make_rank.hpp"

namespace tessera {

/// Checks what can be known before ranks start that generate with the checkpoint in `folder`: that
/// layers divide among them, that it has their parameters, and what these mean. Throws ConfigError;
/// what is doubtful is a warning.
void check_generation(const RunSetup& setup, const std::string& folder, int threads);

/// A trained model on one rank or on several that share it, continuing token sequences. It needs no
/// data.
class Generator {
 public:
  /// Loads the parameters of the checkpoint in `folder`, which are checked where the rank is the
  /// only one. Configuration and plugins outlive it. `places`: sequences that it continues
  /// together, at most. `setup`: derived with DataUse::none.
  Generator(const RunSetup& setup,
            const std::string& folder,
            const RankIdentity& identity,
            i64 places = 1);
  /// The same on one rank.
  Generator(const Resolved& config,
            const PluginHost& plugins,
            const std::string& folder,
            int threads,
            i64 places = 1);
  const Tokenizer& tokenizer() const { return *setup_.tokenizer; }
  TextSampler& sampler() { return sampler_; }
  /// Tells the other ranks that this one fails.
  void abort(std::string_view reason) const noexcept { rank_.abort(reason); }
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
