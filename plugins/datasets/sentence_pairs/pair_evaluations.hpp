#pragma once
#include <memory>
#include <string>

#include "pair_datasets.hpp"
#include "tessera/evaluation.hpp"

namespace tessera {

/// The samples of an evaluation's files.
std::shared_ptr<const PairSamples> pairs_of(const PairTask& task,
                                            const std::vector<std::string>& paths,
                                            const EvaluationArguments& arguments,
                                            const BadRows& bad);

/// An evaluation whose samples are scored by class.
class ClassEvaluation : public EvaluationTask {
 private:
  void do_to_average(SampleScores& scores) const override;
};

/// Evaluation `mnli`: how many pairs are of the class that the model finds likeliest.
class MnliEvaluation final : public ClassEvaluation {
 public:
  struct Config {
    std::string data, mismatched;
    static void describe(Schema<Config>& s);
  };
  MnliEvaluation(const Config& config, EvaluationArguments& arguments);

 private:
  std::shared_ptr<const Dataset> do_samples() const override { return dataset_; }
  EvaluationResults do_evaluate_samples(const SampleScores& scores) const override;

  std::shared_ptr<const PairSamples> samples_;
  std::shared_ptr<const Dataset> dataset_;
};

/// Evaluation `qqp`: that, and F1 of duplicates.
class QqpEvaluation final : public ClassEvaluation {
 public:
  struct Config : BadLinesKey {
    std::string data;
    static void describe(Schema<Config>& s);
  };
  QqpEvaluation(const Config& config, EvaluationArguments& arguments);

 private:
  std::shared_ptr<const Dataset> do_samples() const override { return dataset_; }
  EvaluationResults do_evaluate_samples(const SampleScores& scores) const override;

  std::shared_ptr<const PairSamples> samples_;
  std::shared_ptr<const Dataset> dataset_;
};

}  // namespace tessera
