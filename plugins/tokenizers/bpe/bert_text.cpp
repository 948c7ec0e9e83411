#include "bert_text.hpp"

#include "unicode.hpp"

namespace tessera {

namespace {

// What CJK means to BERT: Chinese characters of any of these blocks, and no others of Asia. (The
// package tokenizers begins the fifth block 256 code points later.)
bool is_ideograph(const Character& character) {
  const u32 c = character.code;
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B820 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

// Calls take(character, text of it) with each.
template <class F>
void for_characters(std::string_view text, const F& take) {
  for (std::size_t at = 0; at < text.size();) {
    const Character character = first_character(text.substr(at));
    take(character, text.substr(at, character.size));
    at += character.size;
  }
}

}  // namespace

std::vector<NormalizerStep> bert_steps(const BertText& text) {
  using Kind = NormalizerStep::Kind;
  std::vector<NormalizerStep> steps;
  const auto add = [&](bool wanted, Kind kind) {
    if (wanted) steps.push_back({kind, {}, {}});
  };
  add(text.clean, Kind::clean);
  add(text.space_ideographs, Kind::space_ideographs);
  add(text.strip_accents, Kind::nfd);
  add(text.strip_accents, Kind::strip_marks);
  add(text.lowercase, Kind::lowercase);
  return steps;
}

std::vector<SplitStep> bert_splits() {
  SplitStep spaces, marks;
  spaces.kind = SplitStep::Kind::white_space;
  spaces.behavior = Delimiter::removed;
  marks.kind = SplitStep::Kind::punctuation;
  return {spaces, marks};
}

std::string cleaned(std::string_view text) {
  constexpr u32 kReplacement = 0xFFFD;
  std::string made;
  made.reserve(text.size());
  for_characters(text, [&](const Character& character, std::string_view written) {
    const u32 c = character.code;
    if (c == '\t' || c == '\n' || c == '\r') {
      made += ' ';
    } else if (c >= 0x20 && c < 0x7F) {
      made += static_cast<char>(c);
    } else if (c != kReplacement && !is_other(character)) {
      if (is_white_space(character)) {
        made += ' ';
      } else {
        made += written;
      }
    }
  });
  return made;
}

std::string with_spaced_ideographs(std::string_view text) {
  std::string made;
  made.reserve(text.size());
  for_characters(text, [&](const Character& character, std::string_view written) {
    if (!is_ideograph(character)) {
      made += written;
    } else {
      (made += ' ').append(written) += ' ';
    }
  });
  return made;
}

std::string without_marks(std::string_view text) {
  std::string made;
  made.reserve(text.size());
  for_characters(text, [&](const Character& character, std::string_view written) {
    if (!is_nonspacing_mark(character)) made += written;
  });
  return made;
}

}  // namespace tessera
