#pragma once
#include <memory>
#include <vector>

#include "kernel/train/execution/evaluation.hpp"
#include "kernel/train/run/row_scores.hpp"
#include "kernel/train/run/shared_prefixes.hpp"
#include "tessera/evaluation.hpp"

namespace tessera {

/// Scores texts with a placed model. Texts are filled up to the sequence length with rows that
/// count for nothing and that no earlier row sees. Rows that texts next to each other begin with
/// run once, into a cache, where the model has one and one rank or a tensor group holds all of it.
class ModelScorer final : public TextScorer {
 public:
  /// The model outlives it.
  explicit ModelScorer(PlacedModel& model);
  ~ModelScorer() override;

  i64 most_tokens() const override;
  std::vector<std::vector<TokenScore>> score(const std::vector<ScoredText>& texts) override;

 private:
  class Texts;
  using Scores = std::vector<std::vector<TokenScore>>;
  void check(const std::vector<ScoredText>& texts) const;
  void score_whole(const std::vector<ScoredText>& texts,
                   const std::vector<std::size_t>& numbers,
                   Scores& scores);
  void score_group(const std::vector<ScoredText>& texts,
                   const PrefixGroup& group,
                   SequenceCache& cache,
                   Scores& scores);

  const RunSetup& setup_;
  const bool one_replica_;
  std::unique_ptr<Texts> texts_;
  RowScores rows_;
  Evaluation evaluation_;
};

}  // namespace tessera
