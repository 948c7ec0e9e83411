#include "lambada.hpp"

#include <algorithm>
#include <cmath>

#include "continuation.hpp"
#include "tessera/error.hpp"
#include "text_lines.hpp"

namespace tessera {

void Lambada::Config::describe(Schema<Config>& s) {
  describe_file(s, "texts: objects with \"text\", one a line, of a .jsonl");
}

EvaluationResults Lambada::do_evaluate(TextScorer& scorer) const {
  std::vector<ScoredText> texts;
  for_each_object(file(), [&](const nlohmann::json& object, const std::string& where) {
    const std::string text = text_in(object, "text", where);
    const std::size_t end = text.find_last_not_of(kWhiteSpace) + 1;
    const std::size_t space = std::string_view(text).substr(0, end).find_last_of(kWhiteSpace);
    if (end == 0 || space == std::string::npos || space < text.find_first_not_of(kWhiteSpace)) {
      fail_config("{}: a context and a last word are wanted", where);
    }
    const std::size_t begin = text.find_first_not_of(kWhiteSpace);
    const std::size_t until = text.find_last_not_of(kWhiteSpace, space) + 1;
    const std::string word = text.substr(space + 1, end - space - 1);
    texts.push_back(continued(tokenizer().encode(text.substr(begin, until - begin)),
                              tokenizer().encode(" " + word),
                              scorer,
                              where));
  });
  if (texts.empty()) fail_config("data: {} has no text", file().path());
  i64 right = 0, words = 0;
  double nats = 0;
  for (const std::vector<TokenScore>& scores : scorer.score(texts)) {
    right += std::ranges::all_of(scores, &TokenScore::largest) ? 1 : 0;
    for (const TokenScore& score : scores) nats -= score.log_probability;
    ++words;
  }
  return {{"texts", words},
          {"right", right},
          {"accuracy", static_cast<double>(right) / static_cast<double>(words)},
          {"nats", nats},
          {"perplexity", std::exp(nats / static_cast<double>(words))}};
}

}  // namespace tessera
