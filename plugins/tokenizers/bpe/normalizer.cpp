#include "normalizer.hpp"

#include "bert_text.hpp"
#include "tessera/error.hpp"
#include "unicode.hpp"

namespace tessera {

std::string replaced(std::string_view text, const Pattern& pattern, const std::string& by) {
  std::string made;
  if (text.empty()) return made;
  pattern.for_each(text, [&](std::string_view part, bool matches) {
    made += matches ? std::string_view(by) : part;
  });
  return made;
}

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps) {
  for (const NormalizerStep& step : steps) {
    auto& pattern = steps_.emplace_back(step, std::nullopt).second;
    if (step.kind == NormalizerStep::Kind::replace) pattern.emplace(step.pattern);
  }
}

std::string Normalizer::operator()(std::string_view text) const {
  constexpr std::size_t kLargest = 64, kAlways = std::size_t{1} << 20;  // times, and bytes more
  std::string made(text);
  for (const auto& [step, pattern] : steps_) {
    require(made.size() <= kLargest * text.size() + kAlways,
            "the normalizer of tokenizer.json makes {} bytes of a text of {}",
            made.size(),
            text.size());
    switch (step.kind) {
      case NormalizerStep::Kind::nfc:
        made = normal_form(made, NormalForm::nfc);
        break;
      case NormalizerStep::Kind::nfd:
        made = normal_form(made, NormalForm::nfd);
        break;
      case NormalizerStep::Kind::nfkc:
        made = normal_form(made, NormalForm::nfkc);
        break;
      case NormalizerStep::Kind::nfkd:
        made = normal_form(made, NormalForm::nfkd);
        break;
      case NormalizerStep::Kind::lowercase:
        made = lower_case(made);
        break;
      case NormalizerStep::Kind::clean:
        made = cleaned(made);
        break;
      case NormalizerStep::Kind::space_ideographs:
        made = with_spaced_ideographs(made);
        break;
      case NormalizerStep::Kind::strip_marks:
        made = without_marks(made);
        break;
      case NormalizerStep::Kind::prepend:
        if (!made.empty()) made.insert(0, step.text);
        break;
      case NormalizerStep::Kind::replace:
        made = replaced(made, *pattern, step.text);
        break;
    }
  }
  return made;
}

}  // namespace tessera
