#pragma once
#include <memory>
#include <span>
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
  /// Both outlive it. `places`: sequences that it continues together, at most.
  TextSampler(Evaluation& evaluation, const RunSetup& setup, i64 places = 1)
      : evaluation_(evaluation),
        setup_(setup),
        cache_(evaluation.make_cache(places)),
        kept_(static_cast<std::size_t>(places)) {}
  /// Whether only what is new of a sequence is run. Otherwise some layer needs whole sequences, and
  /// each token costs as much as all before it.
  bool cached() const { return cache_ != nullptr; }
  /// What the model says of the token that follows each sequence, for its whole vocabulary;
  /// sequence p is that of place p. Of a sequence longer than sequence_length it sees the end: at
  /// least half of that length, from a multiple of the half on, so that the window seldom moves.
  /// Where a sequence begins as that of its place in the last call, only what is new of it is run;
  /// those with one new token run together.
  std::vector<std::vector<float>> logits(std::span<const std::vector<i32>> sequences);
  /// The same of one sequence, in place 0.
  std::vector<float> logits(const std::vector<i32>& tokens);
  /// Puts a sequence in the place of another.
  void move(i64 from, i64 to);
  /// The token that follows, one that the tokenizer knows: the model's vocabulary may be larger.
  /// `logits` are those of `tokens`; `prompt` is the number of the text among those of a call
  /// (sampling_number).
  i32 choose(std::vector<float> logits,
             const std::vector<i32>& tokens,
             const Sampling& sampling,
             i64 prompt) const;
  /// The same of one sequence, in place 0.
  i32 next(const std::vector<i32>& tokens, const Sampling& sampling, i64 prompt = 0);
  /// The prompt and as many tokens after it, by the model as it is now. Tokens that end a text do
  /// not end this one: the ranks, which may read other files, have to take as many steps.
  std::string text(const std::string& prompt, i64 tokens, const Sampling& sampling);

 private:
  std::span<const i32> window_of(const std::vector<i32>& tokens) const;
  /// What of a window is not in the cache, at least its last token, whose logits are not kept.
  std::span<const i32> new_in(std::size_t place, std::span<const i32> window);

  Evaluation& evaluation_;
  const RunSetup& setup_;
  std::unique_ptr<SequenceCache> cache_;  ///< none: whole sequences are run
  std::vector<std::vector<i32>> kept_;    ///< by place, the tokens whose rows it holds
};

}  // namespace tessera
