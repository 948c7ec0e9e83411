#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernel/train/execution/evaluation.hpp"
#include "kernel/train/run/sampling.hpp"
#include "tessera/base/sequence_cache.hpp"

namespace tessera {

/// Continues token sequences with a model. All ranks that share the model call it alike, and get
/// the same tokens.
class TextSampler {
 public:
  /// Both outlive it.
  TextSampler(Evaluation& evaluation, const RunSetup& setup)
      : evaluation_(evaluation), setup_(setup), cache_(evaluation.make_cache()) {}
  /// What the model says of the token that follows, for its whole vocabulary. Of a sequence longer
  /// than sequence_length it sees the end: at least half of that length, from a multiple of the
  /// half on, so that the window seldom moves. Where `tokens` begin as those of the last call, only
  /// what is new of them is run.
  std::vector<float> logits(const std::vector<i32>& tokens);
  /// The token that follows, one that the tokenizer knows: the model's vocabulary may be larger.
  /// `prompt` is the number of the text among those of a call (sampling_number).
  i32 next(const std::vector<i32>& tokens, const Sampling& sampling, i64 prompt = 0);
  /// The prompt and as many tokens after it, by the model as it is now. Tokens that end a text do
  /// not end this one: the ranks, which may read other files, have to take as many steps.
  std::string text(const std::string& prompt, i64 tokens, const Sampling& sampling);

 private:
  Evaluation& evaluation_;
  const RunSetup& setup_;
  std::unique_ptr<SequenceCache> cache_;  ///< none: whole sequences are run
  std::vector<i32> kept_;                 ///< the tokens whose rows it holds
};

}  // namespace tessera
