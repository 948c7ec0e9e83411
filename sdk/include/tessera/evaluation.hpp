#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/identified.hpp"
#include "tessera/base/value.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// A text for a model to score: each of `tokens` from `first` on, given those before it.
struct ScoredText {
  std::vector<i32> tokens;
  i64 first = 1;  ///< 1 or more: nothing is before the first token
};

/// What the model says of one token, given those before it.
struct TokenScore {
  double log_probability = 0;  ///< natural logarithm
  bool largest = false;        ///< no token has a larger logit
};

/// A model that scores texts. All ranks call it, with the same texts.
class TESSERA_API TextScorer {
 public:
  virtual ~TextScorer();
  /// Tokens of the longest text that it scores: one more than the model has positions.
  virtual i64 most_tokens() const = 0;
  /// Of each text the scores of its tokens from `first` on; the same on every rank. They depend on
  /// the text alone, up to rounding, whatever others it is computed with. Throws Error for texts
  /// that are longer, and for ids outside the vocabulary.
  virtual std::vector<std::vector<TokenScore>> score(const std::vector<ScoredText>& texts) = 0;
};

/// What a model's head leaves of each of some samples, in their order (Model::kScoresSlot).
using SampleScores = std::vector<std::vector<float>>;

struct EvaluationArguments {
  std::shared_ptr<const Tokenizer> tokenizer;  ///< the model's
  i64 most_tokens = 2;                         ///< TextScorer::most_tokens
  i64 sequence_length = 1;                     ///< positions of a sample
};

/// What an evaluation found, in the order in which it is told: names as "perplexity", numbers or
/// texts.
using EvaluationResults = std::vector<std::pair<std::string, Value>>;

/// Measures a model on a file of texts, or of samples that its head scores. Plugin kind
/// "evaluation". Its configuration says which file (a key `data`, which `tessera eval --data`
/// sets), and how. The constructor opens it, so that a run ends before its first step where it is
/// missing. A pure function of file, configuration and scores: every rank runs it.
class TESSERA_API EvaluationTask : public Identified {
 public:
  static constexpr std::string_view kKind = "evaluation";
  using Arguments = EvaluationArguments;

  ~EvaluationTask() override;
  /// The samples that it measures, all of SampleSet::test; nullptr: it scores texts.
  std::shared_ptr<const Dataset> samples() const;
  /// Of an evaluation of texts.
  EvaluationResults evaluate(TextScorer& scorer) const;
  /// Of an evaluation of samples: what the head left of them, or its mean over several models
  /// (to_average).
  EvaluationResults evaluate_samples(const SampleScores& scores) const;
  /// Turns scores into what an ensemble averages, in place: probabilities, where classes exclude
  /// each other.
  void to_average(SampleScores& scores) const;

 private:
  // Of texts.
  virtual EvaluationResults do_evaluate(TextScorer& scorer) const;
  // Of samples.
  virtual std::shared_ptr<const Dataset> do_samples() const { return nullptr; }
  virtual EvaluationResults do_evaluate_samples(const SampleScores& scores) const;
  virtual void do_to_average(SampleScores& scores) const;
};

}  // namespace tessera
