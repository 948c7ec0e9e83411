#pragma once
#include "kernel/train/execution/evaluation.hpp"
#include "kernel/train/run/model_scorer.hpp"
#include "tessera/observer.hpp"

namespace tessera {

/// What is found of a model while it trains: its loss on data that it does not train on, and the
/// run's evaluations.
class Validations {
 public:
  /// The model outlives it.
  explicit Validations(PlacedModel& model) : model_(model), evaluation_(model) {}

  Evaluation& evaluation() { return evaluation_; }
  /// All ranks call it and get the same.
  Validation run(i64 step);
  /// What one evaluation finds; alike.
  EvaluationResults measured(const EvaluationTask& task);

 private:
  PlacedModel& model_;
  Evaluation evaluation_;
  std::unique_ptr<ModelScorer> scorer_;  // made by the first call that needs it
};

}  // namespace tessera
