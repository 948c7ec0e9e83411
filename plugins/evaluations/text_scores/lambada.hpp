#pragma once
#include "of_file.hpp"

namespace tessera {

/// Whether a model says the last word of texts whose whole context it needs (Paperno et al. 2016):
/// each token of the word has the largest logit, given the true ones before it (Shoeybi et al.
/// 2019, appendix E.2).
class Lambada final : public OfFile {
 public:
  struct Config : FileKeys {
    static void describe(Schema<Config>& s);
  };
  Lambada(const Config& config, EvaluationArguments& arguments) : OfFile(config, arguments) {}

 private:
  EvaluationResults do_evaluate(TextScorer& scorer) const override;
};

}  // namespace tessera
