#pragma once
#include <memory>
#include <string>

#include "tessera/io/data_file.hpp"
#include "windows.hpp"

namespace tessera {

/// Perplexity of WikiText by the words of the file as it comes (Shoeybi et al. 2019, appendix E.1).
class WikiText final : public EvaluationTask {
 public:
  struct Config : WindowKeys {
    std::string data;
    static void describe(Schema<Config>& s);
  };
  WikiText(const Config& config, EvaluationArguments& arguments)
      : file_(config.data, "data"),
        windows_(config, arguments.most_tokens),
        tokenizer_(arguments.tokenizer) {}

 private:
  EvaluationResults do_evaluate(TextScorer& scorer) const override;

  DataFile file_;
  Windows windows_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace tessera
