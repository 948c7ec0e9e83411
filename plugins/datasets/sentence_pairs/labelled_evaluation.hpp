#pragma once
#include <memory>
#include <string>

#include "labelled_texts.hpp"
#include "pair_evaluations.hpp"

namespace tessera {

/// Evaluation `classes`: how many texts are of the class that the model finds likeliest, and of
/// each class how many.
class ClassesEvaluation final : public ClassEvaluation {
 public:
  struct Config : LabelledKeys {
    std::string data;
    std::vector<std::string> run_classes;
    static void describe(Schema<Config>& s);
  };
  ClassesEvaluation(const Config& config, EvaluationArguments& arguments);

 private:
  std::shared_ptr<const Dataset> do_samples() const override { return dataset_; }
  EvaluationResults do_evaluate_samples(const SampleScores& scores) const override;

  std::vector<std::string> classes_;
  std::shared_ptr<const PairSamples> samples_;
  std::shared_ptr<const Dataset> dataset_;
};

}  // namespace tessera
