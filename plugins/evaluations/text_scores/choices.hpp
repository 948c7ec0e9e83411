#pragma once
#include <memory>
#include <string>

#include "tessera/evaluation.hpp"
#include "tessera/io/data_file.hpp"
#include "tessera/schema.hpp"

namespace tessera {

/// Which of several continuations a model finds likeliest, as lm-evaluation-harness scores them
/// (Gao et al. 2021): by the sum of log probabilities, and by that sum for each character.
class Choices final : public EvaluationTask {
 public:
  struct Config {
    std::string data;
    static void describe(Schema<Config>& s);
  };
  Choices(const Config& config, EvaluationArguments& arguments)
      : file_(config.data, "data"), tokenizer_(arguments.tokenizer) {}

 private:
  EvaluationResults do_evaluate(TextScorer& scorer) const override;

  DataFile file_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace tessera
