#include "kernel/train/run/validations.hpp"

#include <variant>

namespace tessera {

Validation Validations::run(i64 step) {
  const RunSetup& setup = model_.setup();
  Validation found{step, evaluation_.validate(setup.validation_samples)};
  if (!setup.evaluations.empty() && scorer_ == nullptr) {
    scorer_ = std::make_unique<ModelScorer>(model_);
  }
  for (const auto& [name, task] : setup.evaluations) {
    for (const auto& [measure, value] : task->evaluate(*scorer_)) {
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

}  // namespace tessera
