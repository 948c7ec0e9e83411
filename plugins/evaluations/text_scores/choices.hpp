#pragma once
#include "of_file.hpp"

namespace tessera {

/// Which of several continuations a model finds likeliest, as lm-evaluation-harness scores them
/// (Gao et al. 2021): by the sum of log probabilities, and by that sum for each character.
class Choices final : public OfFile {
 public:
  struct Config : FileKeys {
    static void describe(Schema<Config>& s);
  };
  Choices(const Config& config, EvaluationArguments& arguments) : OfFile(config, arguments) {}

 private:
  EvaluationResults do_evaluate(TextScorer& scorer) const override;
};

}  // namespace tessera
