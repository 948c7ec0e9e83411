#include "sentence_rules.hpp"

#include <algorithm>

#include "letters.hpp"
#include "tessera/io/utf8.hpp"

namespace tessera {
namespace {

// How many bytes `text` begins with characters of a kind.
template <class Kind>
std::size_t run_of(std::string_view text, const Kind& kind) {
  std::size_t length = 0;
  while (length < text.size()) {
    const std::string_view character = next_character(text.substr(length));
    if (!kind(character)) break;
    length += character.size();
  }
  return length;
}

bool is_digit(std::string_view character) {
  return character.size() == 1 && character[0] >= '0' && character[0] <= '9';
}

// Its letters, up to an apostrophe or another mark.
std::string_view first_word(std::string_view text) {
  return text.substr(0, run_of(text, [](std::string_view c) {
                       return c.size() > 1
                                  ? !closes(c)
                                  : (c[0] >= 'A' && c[0] <= 'Z') || (c[0] >= 'a' && c[0] <= 'z');
                     }));
}

// May a sentence begin with `text`?
bool may_begin(std::string_view text) {
  const std::string_view first = next_character(text);
  constexpr std::string_view kGoesOn = ",;:.!?)]}&%/+=<>|";
  if (first.empty() || is_lower_case(first)) return false;
  return first.size() > 1 ? !closes(first) : kGoesOn.find(first[0]) == kGoesOn.npos;
}

}  // namespace

std::vector<std::string_view> SentenceRules::cut(std::string_view text) const {
  std::vector<std::string_view> sentences;
  std::size_t begin = 0, at = 0;     // of the sentence; where the text is read
  std::size_t word = 0, filled = 0;  // the last word's begin; the end of what is no white space
  bool first_of_line = true;
  const auto finish = [&](std::size_t end) {
    if (begin < end) sentences.push_back(text.substr(begin, end - begin));
  };
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    if (const std::size_t space = run_of(rest, is_white_space); space > 0) {
      const auto feeds = std::ranges::count(rest.substr(0, space), '\n');
      if (feeds >= (lines_ ? 1 : 2)) {
        finish(at);
        begin = at + space;
      } else if (begin == at) {
        begin += space;
      }
      at += space;
      word = at;
      first_of_line = feeds > 0 || (first_of_line && begin == at);
      continue;
    }
    const std::string_view character = next_character(rest);
    if (!ends_sentence(character)) {
      filled = at += character.size();
      continue;
    }
    const std::size_t marks = run_of(rest, ends_sentence);
    const std::size_t closed = marks + run_of(rest.substr(marks), closes);
    std::size_t last = marks - 1;
    while (inside_character(rest[last])) --last;
    const Marks here{text.substr(word, at - word),
                     first_of_line,
                     rest.substr(0, marks),
                     is_wide_end(rest.substr(last, marks - last)),
                     closed > marks,
                     rest.substr(closed)};
    filled = at += closed;
    if (!ends(here)) continue;
    finish(at);
    begin = word = at;
    first_of_line = false;
  }
  finish(filled);
  return sentences;
}

bool SentenceRules::ends(const Marks& marks) const {
  const std::size_t space = run_of(marks.rest, is_white_space);
  if (marks.wide || space == marks.rest.size()) return true;
  if (space == 0) return false;
  const std::string_view after = marks.rest.substr(space);
  const std::string_view next = after.substr(run_of(after, opens));
  if (!may_begin(next)) return false;
  return marks.closed || marks.marks != "." || stop_ends(marks, next);
}

bool SentenceRules::stop_ends(const Marks& marks, std::string_view next) const {
  const std::string_view word = marks.word.substr(run_of(marks.word, opens));
  constexpr std::size_t kListDigits = 3;  // more are a year
  const std::size_t digits = run_of(word, is_digit);
  const bool number = digits > 0 && digits == word.size() && digits <= kListDigits;
  if (marks.first_of_line && number) return false;
  switch (abbreviations_.of(word, is_digit(next_character(next)))) {
    case StopMeaning::end:
      return true;
    case StopMeaning::part:
      return false;
    case StopMeaning::unclear:
      break;
  }
  const std::string_view begins = first_word(next);
  return often_begins(begins) && !next.substr(begins.size()).starts_with('.');
}

}  // namespace tessera
