#pragma once
#include <memory>
#include <vector>

#include "kernel/train/run/row_scores.hpp"
#include "tessera/evaluation.hpp"

namespace tessera {

/// Scores texts with a placed model. Texts are filled up to the sequence length with rows that
/// count for nothing and that no earlier row sees.
class ModelScorer final : public TextScorer {
 public:
  /// The model outlives it.
  explicit ModelScorer(PlacedModel& model);
  ~ModelScorer() override;

  i64 most_tokens() const override;
  std::vector<std::vector<TokenScore>> score(const std::vector<ScoredText>& texts) override;

 private:
  class Texts;
  void check(const std::vector<ScoredText>& texts) const;

  const RunSetup& setup_;
  std::unique_ptr<Texts> texts_;
  RowScores rows_;
};

}  // namespace tessera
