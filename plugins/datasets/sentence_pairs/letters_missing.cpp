#include "letters.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

void require_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x80) continue;
    fail_config(
        "squad: answers are compared by small letters, and beyond ASCII that needs utf8proc, which "
        "this build is without: install libutf8proc-dev (tests/setup.sh names all packages), then "
        "configure and build again");
  }
}

bool is_between(char c, char first, char last) { return c >= first && c <= last; }

}  // namespace

std::string lower_case(std::string_view text) {
  require_ascii(text);
  std::string lower(text);
  for (char& c : lower) {
    if (is_between(c, 'A', 'Z')) c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool is_letter_or_number(std::string_view character) {
  require_ascii(character);
  const char c = character[0];
  return is_between(c, 'a', 'z') || is_between(c, 'A', 'Z') || is_between(c, '0', '9');
}

}  // namespace tessera
