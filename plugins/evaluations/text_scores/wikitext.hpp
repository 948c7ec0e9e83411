#pragma once
#include "windows.hpp"

namespace tessera {

/// Perplexity of WikiText by the words of the file as it comes (Shoeybi et al. 2019, appendix E.1).
class WikiText final : public OfWindows {
 public:
  struct Config : WindowKeys {
    static void describe(Schema<Config>& s);
  };
  WikiText(const Config& config, EvaluationArguments& arguments) : OfWindows(config, arguments) {}

 private:
  EvaluationResults do_evaluate(TextScorer& scorer) const override;
};

}  // namespace tessera
