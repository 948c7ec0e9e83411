#pragma once
#include <memory>
#include <string>

#include "best_span.hpp"
#include "squad_samples.hpp"
#include "tessera/evaluation.hpp"

namespace tessera {

/// Evaluation `squad`: exact match and F1 of the answers that a model finds in contexts.
class SquadEvaluation final : public EvaluationTask {
 public:
  struct Config : SpanKeys {
    std::string data;
    i64 answer = 30, best = 20;
    Auto<double> null_threshold;
    static void describe(Schema<Config>& s);
  };
  SquadEvaluation(const Config& config, EvaluationArguments& arguments);

 private:
  std::shared_ptr<const Dataset> do_samples() const override { return dataset_; }
  EvaluationResults do_evaluate_samples(const SampleScores& scores) const override;
  // Logits are averaged as they are: their probabilities are of a window, and windows are compared.
  void do_to_average(SampleScores&) const override {}

  std::vector<WindowScores> windows_of(const SquadSamples::Question& question,
                                       const SampleScores& scores) const;
  std::string answer_to(const SquadSamples::Question& question, const SampleScores& scores) const;

  SpanLimits limits_;
  double null_threshold_;
  i64 length_;
  std::shared_ptr<const SquadSamples> samples_;
  std::shared_ptr<const Dataset> dataset_;
};

}  // namespace tessera
