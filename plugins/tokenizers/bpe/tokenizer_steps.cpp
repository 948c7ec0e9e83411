#include "tokenizer_steps.hpp"

#include <array>
#include <utility>

#include "bert_text.hpp"
#include "tessera/error.hpp"
#include "unicode.hpp"

namespace tessera {

namespace {

constexpr std::size_t kMostSteps = 64;

// Calls `step` with a part and its type, or with those of a sequence, whose elements `list` names.
template <class F>
void for_steps(const JsonPart& part, const char* list, const F& step, int* count) {
  if (++*count > static_cast<int>(kMostSteps)) {
    part.refuse(fmt::format("has too many steps: at most {}", kMostSteps));
  }
  const JsonPart type = part["type"];
  if (type.text() != "Sequence") return step(part, type);
  part.only({"type", list});
  for (const JsonPart& element : part[list].elements()) for_steps(element, list, step, count);
}

template <class F>
void for_steps(const JsonPart& part, const char* list, const F& step) {
  int count = 0;
  for_steps(part, list, step, &count);
}

PatternText pattern_of(const JsonPart& part) {
  part.only({"String", "Regex"});
  const bool regex = part["String"].is_null();
  const JsonPart said = part[regex ? "Regex" : "String"];
  if (!regex && !part["Regex"].is_null()) part.refuse("has both String and Regex");
  return {said.text(), regex, said.place()};
}

// Which is several of ours, one after the other.
std::vector<NormalizerStep> bert_normalizer(const JsonPart& part) {
  part.only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  require_categories(part.place());
  const bool lowercase = part["lowercase"].flag(true);
  return bert_steps({.clean = part["clean_text"].flag(true),
                     .space_ideographs = part["handle_chinese_chars"].flag(true),
                     .strip_accents = part["strip_accents"].flag(lowercase),
                     .lowercase = lowercase});
}

NormalizerStep normalizer_step(const JsonPart& part, const JsonPart& type) {
  using Kind = NormalizerStep::Kind;
  const std::string name = type.text();
  if (name == "Prepend") {
    part.only({"type", "prepend"});
    return {Kind::prepend, part["prepend"].text(), {}};
  }
  if (name == "Replace") {
    part.only({"type", "pattern", "content"});
    return {Kind::replace, part["content"].text(), pattern_of(part["pattern"])};
  }
  for (const auto& [known, kind] : {std::pair{"NFC", Kind::nfc},
                                    {"NFD", Kind::nfd},
                                    {"NFKC", Kind::nfkc},
                                    {"NFKD", Kind::nfkd},
                                    {"Lowercase", Kind::lowercase}}) {
    if (name != known) continue;
    part.only({"type"});
    require_categories(part.place());
    return {kind, {}, {}};
  }
  type.unknown();
}

Delimiter delimiter_of(const JsonPart& part) {
  const std::string name = part.text();
  for (const auto& [known, kind] : {std::pair{"Isolated", Delimiter::isolated},
                                    {"Removed", Delimiter::removed},
                                    {"MergedWithPrevious", Delimiter::merged_with_previous},
                                    {"MergedWithNext", Delimiter::merged_with_next},
                                    {"Contiguous", Delimiter::contiguous}}) {
    if (name == known) return kind;
  }
  part.unknown();
}

// Both Metaspaces have these keys.
SplitStep metaspace_of(const JsonPart& part) {
  using Prefix = SplitStep::Prefix;
  part.only({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  SplitStep step{.kind = SplitStep::Kind::metaspace, .pattern = {}, .replacement = {}};
  step.replacement = part["replacement"].character();
  step.cut = part["split"].flag(true);
  const JsonPart scheme = part["prepend_scheme"];
  const std::string name = scheme.is_null() ? "always" : scheme.text();
  if (name != "always" && name != "first" && name != "never") scheme.unknown();
  step.prefix = name == "always" ? Prefix::always : name == "first" ? Prefix::first : Prefix::never;
  const JsonPart prefix = part["add_prefix_space"];
  if (!prefix.flag(true) && step.prefix != Prefix::never) {
    prefix.refuse("is false, which contradicts prepend_scheme");
  }
  return step;
}

SplitStep split_step(const JsonPart& part, const JsonPart& type) {
  using Kind = SplitStep::Kind;
  const std::string name = type.text();
  SplitStep step;
  if (name == "ByteLevel") {
    part.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    step.kind = Kind::byte_level;
    if (part["add_prefix_space"].flag()) step.prefix = SplitStep::Prefix::always;
    step.cut = part["use_regex"].flag(true);
  } else if (name == "Split") {
    part.only({"type", "pattern", "behavior", "invert"});
    step.pattern = pattern_of(part["pattern"]);
    step.behavior = delimiter_of(part["behavior"]);
    step.invert = part["invert"].flag();
  } else if (name == "Digits") {
    part.only({"type", "individual_digits"});
    require_categories(part.place());
    step.kind = Kind::digits;
    step.each = part["individual_digits"].flag();
  } else if (name == "Metaspace") {
    step = metaspace_of(part);
  } else if (name == "WhitespaceSplit") {
    part.only({"type"});
    step.kind = Kind::white_space;
    step.behavior = Delimiter::removed;
  } else if (name == "Punctuation") {
    part.only({"type", "behavior"});
    require_categories(part.place());
    step.kind = Kind::punctuation;
    if (!part["behavior"].is_null()) step.behavior = delimiter_of(part["behavior"]);
  } else {
    type.unknown();
  }
  return step;
}

DecoderStep decoder_step(const JsonPart& part, const JsonPart& type) {
  using Kind = DecoderStep::Kind;
  const std::string name = type.text();
  DecoderStep step;
  if (name == "ByteLevel") {
    part.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    step.kind = Kind::byte_level;
  } else if (name == "Replace") {
    part.only({"type", "pattern", "content"});
    step.kind = Kind::replace;
    step.pattern = pattern_of(part["pattern"]);
    step.text = part["content"].text();
  } else if (name == "ByteFallback" || name == "Fuse") {
    part.only({"type"});
    step.kind = name == "Fuse" ? Kind::fuse : Kind::byte_fallback;
  } else if (name == "Strip") {
    part.only({"type", "content", "start", "stop"});
    step.kind = Kind::strip;
    step.text = part["content"].character();
    step.start = part["start"].integer();
    step.stop = part["stop"].integer();
  } else if (name == "Metaspace") {
    const SplitStep same = metaspace_of(part);
    step.kind = Kind::metaspace;
    step.text = same.replacement;
    step.keeps_spaces = same.prefix == SplitStep::Prefix::never;
  } else if (name == "WordPiece") {
    part.only({"type", "prefix", "cleanup"});
    step.kind = Kind::word_piece;
    step.text = part["prefix"].text();
    step.clean_up = part["cleanup"].flag(true);
  } else {
    type.unknown();
  }
  return step;
}

}  // namespace

std::vector<NormalizerStep> normalizer_steps(const JsonPart& part) {
  std::vector<NormalizerStep> steps;
  if (part.is_null()) return steps;
  for_steps(part, "normalizers", [&](const JsonPart& element, const JsonPart& type) {
    if (type.text() != "BertNormalizer") return steps.push_back(normalizer_step(element, type));
    for (NormalizerStep& step : bert_normalizer(element)) steps.push_back(std::move(step));
  });
  return steps;
}

std::vector<SplitStep> split_steps(const JsonPart& part) {
  std::vector<SplitStep> steps;
  if (part.is_null()) return steps;
  for_steps(part, "pretokenizers", [&](const JsonPart& element, const JsonPart& type) {
    if (type.text() != "BertPreTokenizer") return steps.push_back(split_step(element, type));
    element.only({"type"});
    require_categories(element.place());
    for (SplitStep& step : bert_splits()) steps.push_back(std::move(step));
  });
  return steps;
}

std::optional<std::vector<DecoderStep>> decoder_steps(const JsonPart& part) {
  if (part.is_null()) return {};
  std::vector<DecoderStep> steps;
  for_steps(part, "decoders", [&](const JsonPart& element, const JsonPart& type) {
    steps.push_back(decoder_step(element, type));
  });
  return steps;
}

void require_known_post_processor(const JsonPart& part) {
  if (part.is_null()) return;
  for_steps(part, "processors", [](const JsonPart& element, const JsonPart& type) {
    const std::string name = type.text();
    if (name == "ByteLevel") {
      element.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    } else if (name == "TemplateProcessing") {
      element.only({"type", "single", "pair", "special_tokens"});
    } else if (name == "BertProcessing") {
      element.only({"type", "sep", "cls"});
    } else {
      type.unknown();
    }
  });
}

}  // namespace tessera
