#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kernel/train/run/loaded_model.hpp"
#include "kernel/train/run/text_sampler.hpp"

namespace tessera {

/// A trained model on one rank or on several that share it, continuing token sequences. It needs no
/// data.
class Generator {
 public:
  /// See LoadedModel. `places`: sequences that it continues together, at most. `setup`: derived
  /// with DataUse::none.
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
  const Tokenizer& tokenizer() const { return *model_.setup().tokenizer; }
  TextSampler& sampler() { return sampler_; }
  /// Tells the other ranks that this one fails.
  void abort(std::string_view reason) const noexcept { model_.rank().abort(reason); }
  /// Tokens that end a text.
  const std::vector<i32>& ends() const { return ends_; }

 private:
  LoadedModel model_;
  Evaluation evaluation_;
  TextSampler sampler_;
  std::vector<i32> ends_;
};

}  // namespace tessera
