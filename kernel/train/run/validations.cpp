#include "kernel/train/run/validations.hpp"

#include <utility>
#include <variant>

#include "tessera/error.hpp"

namespace tessera {

Validations::Validations(PlacedModel& model) : model_(model), evaluation_(model) {
  for (const auto& [name, task] : model.setup().evaluations) {
    try {
      prepare(*task);
    } catch (const ConfigError& error) {
      const std::string which =
          name == kCommandEvaluation ? "this evaluation" : "[evaluations." + name + "]";
      fail_config("{} does not fit the model's head: {}", which, error.what());
    }
  }
}

void Validations::prepare(const EvaluationTask& task) {
  if (auto dataset = task.samples()) {
    auto scorer = std::make_unique<SampleScorer>(model_, *dataset);
    samples_[&task] = {std::move(dataset), std::move(scorer)};
  } else if (scorer_ == nullptr) {
    scorer_ = std::make_unique<ModelScorer>(model_);
  }
}

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
  return samples_.contains(&task) ? task.evaluate_samples(scores(task)) : task.evaluate(*scorer_);
}

SampleScores Validations::scores(const EvaluationTask& task) {
  Samples& samples = samples_.at(&task);
  return samples.scorer->score(SampleSet::test, 0, samples.dataset->size(SampleSet::test));
}

}  // namespace tessera
