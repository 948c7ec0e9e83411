#pragma once
#include <map>
#include <memory>

#include "kernel/train/execution/evaluation.hpp"
#include "kernel/train/run/model_scorer.hpp"
#include "kernel/train/run/sample_scores.hpp"
#include "tessera/observer.hpp"

namespace tessera {

/// What is found of a model while it trains: its loss on data that it does not train on, and the
/// run's evaluations.
class Validations {
 public:
  /// The model outlives it. Throws ConfigError for an evaluation whose texts or samples do not have
  /// what the model's losses need.
  explicit Validations(PlacedModel& model);

  Evaluation& evaluation() { return evaluation_; }
  /// All ranks call it and get the same.
  Validation run(i64 step);
  /// What one evaluation of the setup finds; alike.
  EvaluationResults measured(const EvaluationTask& task);
  /// The scores of its samples; of an evaluation of samples.
  SampleScores scores(const EvaluationTask& task);

 private:
  struct Samples {
    std::shared_ptr<const Dataset> dataset;
    std::unique_ptr<SampleScorer> scorer;
  };
  void prepare(const EvaluationTask& task);

  PlacedModel& model_;
  Evaluation evaluation_;
  std::unique_ptr<ModelScorer> scorer_;               // where some evaluation is of texts
  std::map<const EvaluationTask*, Samples> samples_;  // of the others
};

}  // namespace tessera
