#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "tessera/error.hpp"
#include "unicode.hpp"

namespace tessera {

namespace {

utf8proc_category_t category(const Character& character) {
  return character.code == Character::kNone
             ? UTF8PROC_CATEGORY_CN
             : utf8proc_category(static_cast<utf8proc_int32_t>(character.code));
}

struct Free {
  void operator()(utf8proc_uint8_t* bytes) const { std::free(bytes); }
};

bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

}  // namespace

bool is_word_character(const Character& character) {
  const u32 c = character.code;
  switch (category(character)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:  // the joiners, and letters in circles and squares, which are alphabetic symbols
      return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
             (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
             (c >= 0x1F170 && c <= 0x1F189);
  }
}

bool is_number(const Character& character) {
  const utf8proc_category_t of = category(character);
  return of == UTF8PROC_CATEGORY_ND || of == UTF8PROC_CATEGORY_NL || of == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(const Character& character) {
  const u32 c = character.code;
  if (c < 0x80) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  }
  const utf8proc_category_t of = category(character);
  return of >= UTF8PROC_CATEGORY_PC && of <= UTF8PROC_CATEGORY_PO;
}

bool is_other(const Character& character) {
  const utf8proc_category_t of = category(character);
  return of == UTF8PROC_CATEGORY_CN || (of >= UTF8PROC_CATEGORY_CC && of <= UTF8PROC_CATEGORY_CO);
}

bool is_nonspacing_mark(const Character& character) {
  return character.code >= 0x300 && category(character) == UTF8PROC_CATEGORY_MN;
}

std::string normal_form(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  const bool composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0) |
                                     (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE));
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()),
                                             &made,
                                             options);
  const std::unique_ptr<utf8proc_uint8_t, Free> owned(made);
  require(size >= 0, "tokenizer huggingface: utf8proc fails: {}", utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(made), static_cast<std::size_t>(size)};
}

std::string lower_case(std::string_view text) {
  std::string lower;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = first_character(text.substr(at));
    if (character.code == 0x130) {  // the one character whose small form is two
      lower += "i\u0307";
    } else {
      utf8proc_uint8_t bytes[4];
      const auto code = utf8proc_tolower(static_cast<utf8proc_int32_t>(character.code));
      const utf8proc_ssize_t size = utf8proc_encode_char(code, bytes);
      lower.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    }
    at += character.size;
  }
  return lower;
}

void require_categories(std::string_view) {}

}  // namespace tessera
