#include "sentence_cuts.hpp"

#include <algorithm>

namespace tessera {

namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // "▁", which stands for a space

// Does a token go on after a space that is not at its beginning?
bool goes_on(std::string_view token) {
  if (token.find(' ') != token.npos) return true;
  while (token.starts_with(kSpace)) token.remove_prefix(kSpace.size());
  return token.find(kSpace) != token.npos;
}

bool is_visible(char c) { return c > ' ' && c <= '~'; }

}  // namespace

SentenceCuts::SentenceCuts(const ModelFile& file) {
  constexpr u64 kBpe = 2;
  const bool space = std::ranges::any_of(file.pieces, [](const ModelPiece& piece) {
    return piece.text == kSpace && piece.type == ModelPiece::Type::normal;
  });
  allowed_ = file.model_type == kBpe && !file.has_char_map && file.space_before &&
             file.spaces_are_marked && !file.spaces_are_suffixes && space &&
             std::ranges::none_of(file.pieces,
                                  [](const ModelPiece& piece) { return goes_on(piece.text); });
}

void SentenceCuts::for_each(std::string_view text, const Take& take) const {
  constexpr std::size_t kPart = 4096;  // bytes; a little more, up to the next space
  while (allowed_ && text.size() > kPart) {
    // Between visible characters of ASCII there is no other white space to take off or to join.
    std::size_t cut = text.find(' ', kPart);
    while (cut < text.size() &&
           !(is_visible(text[cut - 1]) && cut + 1 < text.size() && is_visible(text[cut + 1]))) {
      cut = text.find(' ', cut + 1);
    }
    if (cut >= text.size()) break;
    take(text.substr(0, cut));
    text.remove_prefix(cut + 1);
  }
  take(text);
}

}  // namespace tessera
