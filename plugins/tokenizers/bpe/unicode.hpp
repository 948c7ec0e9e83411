#pragma once
#include <string>
#include <string_view>

#include "tessera/io/utf8.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// A character of a text; `size` is 0 where there is none, and 1 for a byte that is no UTF-8, with
/// a code that no character has.
struct Character {
  static constexpr u32 kNone = 0xFFFFFFFF;
  u32 code = kNone;
  std::size_t size = 0;
};
Character first_character(std::string_view text);
Character last_character(std::string_view text);

/// Bytes of the characters that `text` begins with, up to one that is no UTF-8.
std::size_t valid_length(std::string_view text);
/// Calls `take` with runs of characters and runs of bytes that are no UTF-8, in turn.
template <class F>
void for_runs(std::string_view text, F&& take) {
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end += valid_length(text.substr(begin));
    if (end > begin) take(text.substr(begin, end - begin), true);
    begin = end;
    while (end < text.size() && character_length(text.substr(end)) == 0) ++end;
    if (end > begin) take(text.substr(begin, end - begin), false);
  }
}

bool is_white_space(const Character& character);
/// Unicode's \w: letters, marks, decimal digits, connectors and joiners.
bool is_word_character(const Character& character);
/// A decimal digit, or another number, as ² and Ⅳ.
bool is_number(const Character& character);
/// Unicode's punctuation, and the signs of ASCII that are none of it, as $ and +.
bool is_punctuation(const Character& character);
/// One of Unicode's "other" characters: control, format, private, unassigned.
bool is_other(const Character& character);
/// A mark that stands above or below a letter, as an accent.
bool is_nonspacing_mark(const Character& character);

enum class NormalForm : u8 { nfc, nfd, nfkc, nfkd };
/// `text` is UTF-8.
std::string normal_form(std::string_view text, NormalForm form);
std::string lower_case(std::string_view text);

/// Throws ConfigError where this build has no utf8proc, which only is_white_space() does without.
/// `user` names what needs it.
void require_categories(std::string_view user);

}  // namespace tessera
