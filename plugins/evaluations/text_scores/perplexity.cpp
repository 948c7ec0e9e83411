#include "perplexity.hpp"

#include <cmath>
#include <numbers>

#include "text_lines.hpp"

namespace tessera {

void Perplexity::Config::describe(Schema<Config>& s) {
  describe_file(
      s, "documents: objects with \"text\", one a line, of a .jsonl; another file is one document");
  describe_windows(s);
}

// Where the tokenizer has a token before texts, or between them, it is what the first token is
// given; otherwise nothing is, and the first token is not scored.
EvaluationResults Perplexity::do_evaluate(TextScorer& scorer) const {
  const SpecialIds special = tokenizer().special_ids();
  const std::optional<i32> before = special.bos ? special.bos : special.eod;
  const auto encoder = tokenizer().encoder();
  WindowSum sum(scorer, windows());
  i64 documents = 0, words = 0, bytes = 0, first = 0;
  for_each_document(file(), [&](const std::string& text, const std::string&) {
    std::vector<i32> tokens;
    if (before) tokens.push_back(*before);
    encoder->append(text, tokens);
    ++documents;
    if (!before && !tokens.empty()) ++first;
    words += count_words(text);
    bytes += static_cast<i64>(text.size());
    sum.add(tokens);
  });
  const double nats = sum.nats();
  const auto a = [&](i64 parts) { return nats / static_cast<double>(parts); };
  return {{"documents", documents},
          {"windows", sum.windows()},
          {"tokens", sum.tokens()},
          {"first_tokens_not_scored", first},
          {"words", words},
          {"bytes", bytes},
          {"nats", nats},
          {"nats_per_token", a(sum.tokens())},
          {"token_perplexity", std::exp(a(sum.tokens()))},
          {"word_perplexity", std::exp(a(words))},
          {"bits_per_byte", a(bytes) / std::numbers::ln2}};
}

}  // namespace tessera
