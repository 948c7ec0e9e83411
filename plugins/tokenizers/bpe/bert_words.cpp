#include "bert_words.hpp"

#include <algorithm>

#include "bert_text.hpp"

namespace tessera {

namespace {

bool alike(const NormalizerStep& a, const NormalizerStep& b) { return a.kind == b.kind; }
bool alike(const SplitStep& a, const SplitStep& b) {
  return a.kind == b.kind && a.behavior == b.behavior;
}

// Whether the steps are those; BERT's are decided by their kind and behavior alone.
template <class Step>
bool are(const std::vector<Step>& steps, const std::vector<Step>& those) {
  return std::ranges::equal(steps, those, [](const Step& a, const Step& b) { return alike(a, b); });
}

bool has(const std::vector<NormalizerStep>& steps, NormalizerStep::Kind kind) {
  return std::ranges::find(steps, kind, &NormalizerStep::kind) != steps.end();
}

}  // namespace

std::optional<BertWords> BertWords::of(const TokenizerFile& file) {
  using Kind = NormalizerStep::Kind;
  const BertText text{.clean = has(file.normalizer, Kind::clean),
                      .space_ideographs = has(file.normalizer, Kind::space_ideographs),
                      .strip_accents = has(file.normalizer, Kind::strip_marks),
                      .lowercase = has(file.normalizer, Kind::lowercase)};
  if (!file.pieces || !are(file.normalizer, bert_steps(text)) ||
      !are(file.pre_tokenizer, bert_splits())) {
    return std::nullopt;
  }
  return BertWords(text.lowercase);
}

BertWords::BertWords(bool lowercase) {
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    const char c = static_cast<char>(i);
    const bool capital = c >= 'A' && c <= 'Z';
    const bool letter = capital || (c >= 'a' && c <= 'z');
    written_[i] = capital && lowercase ? static_cast<char>(c - 'A' + 'a') : c;
    kinds_[i] = c == ' ' || c == '\t' || c == '\n' || c == '\r' ? Kind::space
                : letter || (c >= '0' && c <= '9')              ? Kind::word
                : i > ' ' && i < 0x7F                           ? Kind::mark
                                                                : Kind::beyond;
  }
}

}  // namespace tessera
