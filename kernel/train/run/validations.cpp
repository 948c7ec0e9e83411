#include "kernel/train/run/validations.hpp"

#include <utility>
#include <variant>

#include "kernel/train/run/sample_scores.hpp"

namespace tessera {

Validation Validations::run(i64 step) {
  const RunSetup& setup = model_.setup();
  StepLosses::Row row = evaluation_.validate(setup.validation_samples);
  Validation found{step, row.loss, std::move(row.metrics)};
  for (const auto& [name, task] : setup.evaluations) {
    for (const auto& [measure, value] : measured(*task)) {
      const std::string full = name + "." + measure;
      if (const auto* number = std::get_if<double>(&value.data)) {
        found.measured.emplace_back(full, *number);
      } else if (const auto* whole = std::get_if<i64>(&value.data)) {
        found.measured.emplace_back(full, static_cast<double>(*whole));
      }
    }
  }
  return found;
}

EvaluationResults Validations::measured(const EvaluationTask& task) {
  if (const auto samples = task.samples()) {
    return task.evaluate_samples(score_all(model_, *samples));
  }
  if (scorer_ == nullptr) scorer_ = std::make_unique<ModelScorer>(model_);
  return task.evaluate(*scorer_);
}

}  // namespace tessera
