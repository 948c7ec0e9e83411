#pragma once
#include <string_view>

namespace tessera {

/// Does `text` have the form of `pattern`, in which * stands for any characters, ? for one?
inline bool glob_matches(std::string_view pattern, std::string_view text) {
  // After a mismatch the last star takes one more character; earlier stars need no second look.
  std::size_t p = 0, t = 0, star = std::string_view::npos, taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace tessera
