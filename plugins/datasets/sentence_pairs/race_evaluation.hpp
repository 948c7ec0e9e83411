#pragma once
#include <memory>
#include <string>

#include "choice_samples.hpp"
#include "pair_evaluations.hpp"

namespace tessera {

/// Evaluation `race`: how many questions have the choice that the model finds likeliest.
class RaceEvaluation final : public ClassEvaluation {
 public:
  struct Config : ChoiceKeys {
    std::string data;
    static void describe(Schema<Config>& s);
  };
  RaceEvaluation(const Config& config, EvaluationArguments& arguments);

 private:
  std::shared_ptr<const Dataset> do_samples() const override { return dataset_; }
  EvaluationResults do_evaluate_samples(const SampleScores& scores) const override;

  std::shared_ptr<const ChoiceSamples> samples_;
  std::shared_ptr<const Dataset> dataset_;
};

}  // namespace tessera
