#include "pre_tokenizer.hpp"

#include <algorithm>
#include <utility>

#include "part_merger.hpp"
#include "unicode.hpp"

namespace tessera {

using Kind = SplitStep::Kind;
using Prefix = SplitStep::Prefix;

namespace {

// Characters that cut a text, and how.
std::pair<bool (*)(const Character&), Delimiter> delimiter_of(const SplitStep& step) {
  if (step.kind == Kind::white_space) return {is_white_space, step.behavior};
  if (step.kind == Kind::punctuation) return {is_punctuation, step.behavior};
  return {is_number, step.each ? Delimiter::isolated : Delimiter::contiguous};
}

}  // namespace

PreTokenizer::PreTokenizer(const std::vector<SplitStep>& steps, const ByteAlphabet& alphabet)
    : alphabet_(alphabet) {
  for (const SplitStep& what : steps) {
    Step& step = steps_.emplace_back();
    step.what = what;
    if (what.kind == Kind::split) step.pattern.emplace(what.pattern);
    if (what.kind != Kind::byte_level) continue;
    writes_bytes_ = true;
    if (what.cut) step.words.emplace("huggingface");
  }
  // A step after it would see characters, so only the last one leaves bytes as they are; and only
  // the first writes bytes, of which a second one would write the bytes.
  const auto writers = std::ranges::count_if(
      steps, [](const SplitStep& step) { return step.kind == Kind::byte_level; });
  bytes_ = writers == 1 && steps.back().kind == Kind::byte_level;
}

void PreTokenizer::for_each(std::string_view text, bool first, const Take& take) const {
  if (!text.empty()) cut(0, {text, first}, take);
}

std::string PreTokenizer::word_of(std::string_view bytes) const {
  return writes_bytes_ && !bytes_ ? alphabet_.written(bytes) : std::string(bytes);
}

void PreTokenizer::cut(std::size_t at, Piece piece, const Take& take) const {
  if (at == steps_.size()) return take(piece.text);
  switch (steps_[at].what.kind) {
    case Kind::byte_level:
      return cut_bytes(at, piece, take);
    case Kind::metaspace:
      return cut_metaspace(at, piece, take);
    default:
      return cut_matches(at, piece, take);
  }
}

void PreTokenizer::cut_matches(std::size_t at, Piece piece, const Take& take) const {
  const SplitStep& step = steps_[at].what;
  const PartMerger::Take next = [&](std::string_view part) {
    cut(at + 1, {part, piece.first && part.data() == piece.text.data()}, take);
  };
  if (step.kind == Kind::split) {
    PartMerger parts(piece.text, step.behavior, next);
    steps_[at].pattern->for_each(piece.text, [&](std::string_view part, bool matches) {
      parts.add(part, matches != step.invert);
    });
    return parts.finish();
  }
  const auto [cuts, behavior] = delimiter_of(step);
  PartMerger parts(piece.text, behavior, next);
  std::size_t done = 0, end = 0;
  const auto before = [&] {
    if (end > done) parts.add(piece.text.substr(done, end - done), false);
  };
  while (end < piece.text.size()) {
    const Character character = first_character(piece.text.substr(end));
    if (cuts(character)) {
      before();
      parts.add(piece.text.substr(end, character.size), true);
      done = end + character.size;
    }
    end += character.size;
  }
  before();
  parts.finish();
}

void PreTokenizer::cut_metaspace(std::size_t at, Piece piece, const Take& take) const {
  const SplitStep& step = steps_[at].what;
  std::string text;
  for (const char c : piece.text) {
    if (c == ' ') {
      text += step.replacement;
    } else {
      text += c;
    }
  }
  const bool wanted =
      step.prefix == Prefix::always || (step.prefix == Prefix::first && piece.first);
  if (wanted && !text.starts_with(step.replacement)) text.insert(0, step.replacement);
  if (!step.cut) return cut(at + 1, {text, piece.first}, take);
  // Each word begins with the sign of the space before it.
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = std::min(text.find(step.replacement, begin + 1), text.size());
    cut(at + 1,
        {std::string_view(text).substr(begin, end - begin), piece.first && begin == 0},
        take);
  }
}

void PreTokenizer::cut_bytes(std::size_t at, Piece piece, const Take& take) const {
  const Step& step = steps_[at];
  std::string prefixed;
  if (step.what.prefix != Prefix::never && !piece.text.starts_with(' ')) {
    prefixed.reserve(piece.text.size() + 1);
    prefixed += ' ';
    prefixed += piece.text;
    piece.text = prefixed;
  }
  const auto word = [&](std::string_view part) {
    const bool first = piece.first && part.data() == piece.text.data();
    if (bytes_) return cut(at + 1, {part, first}, take);
    const std::string written = alphabet_.written(part);
    cut(at + 1, {written, first}, take);
  };
  if (!step.words) return word(piece.text);
  step.words->for_each(piece.text, word);
}

}  // namespace tessera
