#pragma once
#include <memory>
#include <string>

#include "tessera/evaluation.hpp"
#include "tessera/io/data_file.hpp"
#include "tessera/schema.hpp"

namespace tessera {

/// Whether a model says the last word of texts whose whole context it needs (Paperno et al. 2016):
/// each token of the word has the largest logit, given the true ones before it (Shoeybi et al.
/// 2019, appendix E.2).
class Lambada final : public EvaluationTask {
 public:
  struct Config {
    std::string data;
    static void describe(Schema<Config>& s);
  };
  Lambada(const Config& config, EvaluationArguments& arguments)
      : file_(config.data, "data"), tokenizer_(arguments.tokenizer) {}

 private:
  EvaluationResults do_evaluate(TextScorer& scorer) const override;

  DataFile file_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace tessera
