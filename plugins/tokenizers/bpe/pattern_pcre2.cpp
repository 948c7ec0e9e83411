#include <algorithm>

#include "pattern.hpp"
#include "pcre2_code.hpp"
#include "unicode.hpp"

namespace tessera {

struct Pattern::State {
  Pcre2Code code;
};

Pattern::Pattern(const PatternText& pattern)
    : state_(new State{Pcre2Code(pcre2_pattern(pattern), PCRE2_MULTILINE, pattern.place)}) {}
Pattern::Pattern(Pattern&& other) noexcept = default;
Pattern::~Pattern() = default;

void Pattern::for_each(std::string_view text, const Take& take) const {
  Pcre2Code::Matcher match(state_->code);
  std::size_t done = 0;
  bool any = false;
  for (std::size_t at = 0; at <= text.size() && match.search(text, at);) {
    const std::size_t begin = match.begin(), end = match.end();
    if (begin == end && any && done == end) {  // an empty match just after a match is none
      at += std::max<std::size_t>(first_character(text.substr(at)).size, 1);
      continue;
    }
    if (begin > done) take(text.substr(done, begin - done), false);
    take(text.substr(begin, end - begin), true);
    at = done = end;
    any = true;
  }
  if (done < text.size()) take(text.substr(done), false);
}

}  // namespace tessera
