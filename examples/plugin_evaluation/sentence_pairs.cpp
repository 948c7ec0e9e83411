// Pairs of sentences, one right and one wrong, as "she walks" and "she walk": how often is the
// right one likelier to the model (Warstadt et al. 2020, "BLiMP", section 3)?
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <tessera/error.hpp>
#include <tessera/evaluation.hpp>
#include <tessera/io/data_file.hpp>
#include <tessera/io/written.hpp>
#include <tessera/plugin.hpp>
#include <vector>

namespace {

using namespace tessera;

class SentencePairs final : public EvaluationTask {
 public:
  struct Config {
    std::string data;
    static void describe(Schema<Config>& s) {
      s.field("data", &Config::data, "a pair a line: the right sentence, a tab, the wrong one")
          .is_path()
          .required();
    }
  };
  // Whatever is wrong with the file ends a run before its first step.
  SentencePairs(const Config& config, EvaluationArguments& arguments) : file_(config.data, "data") {
    std::string_view rest = file_.text();
    for (i64 line = 1; !rest.empty(); ++line) {
      const std::string_view pair = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
      const std::string where = fmt::format("data: {}:{}", written_path(file_.path()), line);
      const std::size_t tab = pair.find('\t');
      if (tab == pair.npos) fail_config("{}: no tab between two sentences", where);
      for (const std::string_view text : {pair.substr(0, tab), pair.substr(tab + 1)}) {
        texts_.push_back({arguments.tokenizer->encode(text), 1});
        const auto tokens = static_cast<i64>(texts_.back().tokens.size());
        if (tokens < 2 || tokens > arguments.most_tokens) {
          fail_config("{}: a sentence of {} tokens; 2 to {} can be scored",
                      where,
                      tokens,
                      arguments.most_tokens);
        }
      }
    }
    if (texts_.empty()) fail_config("data: {} has no pair", written_path(file_.path()));
  }

 private:
  // Every rank comes here, with the same texts, and gets the same scores.
  EvaluationResults do_evaluate(TextScorer& scorer) const override {
    const std::vector<std::vector<TokenScore>> scores = scorer.score(texts_);
    i64 right = 0;
    for (std::size_t i = 0; i < scores.size(); i += 2) {
      if (sum(scores[i]) > sum(scores[i + 1])) ++right;
    }
    const auto pairs = static_cast<i64>(scores.size() / 2);
    return {{"pairs", pairs},
            {"accuracy", static_cast<double>(right) / static_cast<double>(pairs)}};
  }

  static double sum(const std::vector<TokenScore>& scores) {
    double all = 0;
    for (const TokenScore& score : scores) all += score.log_probability;
    return all;
  }

  DataFile file_;
  std::vector<ScoredText> texts_;  // right, wrong, right, wrong, …
};

}  // namespace

TESSERA_PLUGIN(sentence_pairs, "0.1.0", "Which of two sentences is likelier") {
  registrar.add<EvaluationTask, SentencePairs>("sentence_pairs",
                                               "how often the right one of two is likelier");
}
