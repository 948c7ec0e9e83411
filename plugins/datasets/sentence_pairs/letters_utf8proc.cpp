#include <utf8proc.h>

#include "letters.hpp"
#include "tessera/io/utf8.hpp"

namespace tessera {

namespace {

utf8proc_int32_t code_of(std::string_view character) {
  utf8proc_int32_t code = -1;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                   static_cast<utf8proc_ssize_t>(character.size()),
                   &code);
  return code;
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view character = next_character(text.substr(at));
    const utf8proc_int32_t code = code_of(character);
    if (code == 0x130) {  // the one character whose small form is two
      lower += "i\u0307";
    } else {
      utf8proc_uint8_t bytes[4];
      const utf8proc_ssize_t size = utf8proc_encode_char(utf8proc_tolower(code), bytes);
      lower.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    }
    at += character.size();
  }
  return lower;
}

bool is_letter_or_number(std::string_view character) {
  switch (utf8proc_category(code_of(character))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return true;
    default:
      return false;
  }
}

}  // namespace tessera
