#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "kernel/train/data/step_inputs.hpp"
#include "kernel/train/execution/executor.hpp"
#include "kernel/train/setup/placed_model.hpp"
#include "tessera/evaluation.hpp"

namespace tessera {

/// Scores texts with a placed model, under any layout: data-parallel ranks share out the texts,
/// context-parallel ones their rows, and all learn all scores. Texts are filled up to the sequence
/// length with rows that count for nothing and that no earlier row sees.
class ModelScorer final : public TextScorer {
 public:
  /// The model outlives it.
  explicit ModelScorer(PlacedModel& model);
  ~ModelScorer() override;

  i64 most_tokens() const override;
  std::vector<std::vector<TokenScore>> score(const std::vector<ScoredText>& texts) override;

 private:
  class Texts;
  class Rows;
  void check(const std::vector<ScoredText>& texts) const;
  /// Scores of the microbatches [from, from + a step's) of the texts: two values for each row of
  /// each of the round's samples, as `rows` says, on every rank.
  std::vector<double> round(Context& cx, i64 texts, int from, bool more);

  PlacedModel& model_;
  const Rank& rank_;
  const RunSetup& setup_;
  int microbatches_;  // of a rank in a round
  i64 samples_;       // of all ranks in a round
  std::unique_ptr<Texts> texts_;
  std::unique_ptr<Rows> rows_;
  StepInputs inputs_;
  Executor executor_;
  Plan plan_;
};

}  // namespace tessera
