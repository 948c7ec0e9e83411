#pragma once
#include "windows.hpp"

namespace tessera {

/// How surprised a model is by documents, each for itself.
class Perplexity final : public OfWindows {
 public:
  struct Config : WindowKeys {
    static void describe(Schema<Config>& s);
  };
  Perplexity(const Config& config, EvaluationArguments& arguments) : OfWindows(config, arguments) {}

 private:
  EvaluationResults do_evaluate(TextScorer& scorer) const override;
};

}  // namespace tessera
