#include "clean_text.hpp"

#include <algorithm>

#include "normal_form.hpp"
#include "tessera/io/utf8.hpp"

namespace tessera {
namespace {

bool ends_line(std::string_view character) {
  return character == "\xC2\x85" || character == "\xE2\x80\xA8" || character == "\xE2\x80\xA9";
}

bool goes(std::string_view character) {
  if (character == "\t" || character == "\n") return false;
  if (character.size() == 1) return is_control(character[0]);
  if (character == "\xEF\xBB\xBF") return true;
  return character.size() == 2 && character[0] == '\xC2' &&
         static_cast<unsigned char>(character[1]) < 0xA0;
}

}  // namespace

bool may_be_unclean(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    return static_cast<unsigned char>(c) >= 0x7F || (is_control(c) && c != '\t' && c != '\n');
  });
}

std::string clean_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool ascii = true;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    text.remove_prefix(character.size());
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ascii = false;
    } else if (character == "\r") {
      if (!text.starts_with('\n')) out += '\n';
    } else if (ends_line(character)) {
      out += '\n';
    } else if (!goes(character)) {
      out += character;
      ascii = ascii && length == 1;
    }
  }
  return ascii ? out : normal_form_c(out);
}

}  // namespace tessera
