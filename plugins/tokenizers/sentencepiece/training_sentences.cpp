#include "training_sentences.hpp"

#include <algorithm>

#include "tessera/io/utf8.hpp"

namespace tessera {

namespace {

constexpr std::size_t kLongest = 4096;  // bytes of a sentence
constexpr std::string_view kMark = "\xE2\x96\x85";

// Where a sentence that begins `line` ends: before a space, else between characters.
std::size_t cut_of(std::string_view line) {
  if (line.size() <= kLongest) return line.size();
  const std::size_t space = line.rfind(' ', kLongest);
  if (space != line.npos && space > 0) return space;
  std::size_t at = kLongest;
  while (inside_character(line[at]) && at > 1) --at;
  return at;
}

}  // namespace

// Up to a line feed, a zero byte or the mark; empty where two of them follow each other.
std::string_view TrainingSentences::next_line() {
  const std::string_view rest = std::string_view(texts_[text_]).substr(at_);
  const std::size_t stop = rest.find_first_of(std::string_view("\n\0", 2));
  const std::size_t mark = rest.substr(0, stop).find(kMark);
  const std::size_t end = std::min({stop, mark, rest.size()});
  at_ += end + (mark != rest.npos ? kMark.size() : 1);
  if (at_ >= texts_[text_].size()) ++text_, at_ = 0;
  return rest.substr(0, end);
}

bool TrainingSentences::next(std::string& sentence) {
  while (line_.empty()) {
    if (text_ == texts_.size()) return false;
    line_ = next_line();
  }
  const std::size_t end = cut_of(line_);
  sentence = line_.substr(0, end);
  line_.remove_prefix(end);
  return true;
}

}  // namespace tessera
