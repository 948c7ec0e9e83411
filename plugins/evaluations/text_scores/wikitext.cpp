#include "wikitext.hpp"

#include <cmath>
#include <numbers>

#include "detokenized.hpp"
#include "tessera/error.hpp"

namespace tessera {

void WikiText::Config::describe(Schema<Config>& s) {
  describe_file(s, "the file of WikiText as it comes: words between single spaces");
  describe_windows(s);
}

EvaluationResults WikiText::do_evaluate(TextScorer& scorer) const {
  const i64 original = single_space_tokens(file().text());
  const std::vector<i32> tokens = tokenizer().encode(detokenized(file().text()));
  if (tokens.size() < 2) fail_config("data: {} has no text", file().path());
  WindowSum sum(scorer, windows());
  sum.add(tokens);
  const double nats = sum.nats();
  return {{"original_tokens", original},
          {"tokens", static_cast<i64>(tokens.size())},
          {"windows", sum.windows()},
          {"nats", nats},
          {"perplexity", std::exp(nats / static_cast<double>(original))},
          {"token_perplexity", std::exp(nats / static_cast<double>(sum.tokens()))},
          {"bits_per_byte", nats / static_cast<double>(file().text().size()) / std::numbers::ln2}};
}

}  // namespace tessera
