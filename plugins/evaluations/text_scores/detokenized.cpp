#include "detokenized.hpp"

#include <algorithm>
#include <array>

namespace tessera {

namespace {

std::string replaced(const std::string& text, std::string_view from, std::string_view to) {
  std::string made;
  std::size_t at = 0;
  for (std::size_t found; (found = text.find(from, at)) != std::string::npos;) {
    made.append(text, at, found - at).append(to);
    at = found + from.size();
  }
  return made.append(text, at);
}

// White space as Python's `\s` and str.strip() know it, in UTF-8.
constexpr std::array<std::string_view, 29> kSpaces = {" ",
                                                      "\t",
                                                      "\n",
                                                      "\v",
                                                      "\f",
                                                      "\r",
                                                      "\x1c",
                                                      "\x1d",
                                                      "\x1e",
                                                      "\x1f",
                                                      "\xC2\x85",
                                                      "\xC2\xA0",
                                                      "\xE1\x9A\x80",
                                                      "\xE2\x80\x80",
                                                      "\xE2\x80\x81",
                                                      "\xE2\x80\x82",
                                                      "\xE2\x80\x83",
                                                      "\xE2\x80\x84",
                                                      "\xE2\x80\x85",
                                                      "\xE2\x80\x86",
                                                      "\xE2\x80\x87",
                                                      "\xE2\x80\x88",
                                                      "\xE2\x80\x89",
                                                      "\xE2\x80\x8A",
                                                      "\xE2\x80\xA8",
                                                      "\xE2\x80\xA9",
                                                      "\xE2\x80\xAF",
                                                      "\xE2\x81\x9F",
                                                      "\xE3\x80\x80"};

std::string_view stripped(std::string_view text) {
  const auto at_begin = [&](std::string_view space) { return text.starts_with(space); };
  const auto at_end = [&](std::string_view space) { return text.ends_with(space); };
  for (auto found = kSpaces.begin();
       (found = std::ranges::find_if(kSpaces, at_begin)) != kSpaces.end();) {
    text.remove_prefix(found->size());
  }
  for (auto found = kSpaces.begin();
       (found = std::ranges::find_if(kSpaces, at_end)) != kSpaces.end();) {
    text.remove_suffix(found->size());
  }
  return text;
}

// Takes away white space after each `open` and before the next `close`.
std::string closed_up(const std::string& text, char open, char close) {
  std::string made;
  std::size_t at = 0;
  for (std::size_t begin; (begin = text.find(open, at)) != std::string::npos;) {
    const std::size_t end = text.find(close, begin + 1);
    if (end == std::string::npos) break;
    made.append(text, at, begin + 1 - at);
    made.append(stripped(std::string_view(text).substr(begin + 1, end - begin - 1)));
    made.push_back(close);
    at = end + 1;
  }
  return made.append(text, at);
}

// Its expression for numbers after apostrophes has the slashes of another language in it, so that
// it finds them only between slashes, and puts itself there.
std::string numbers_between_slashes(const std::string& text) {
  constexpr std::string_view kBefore = "/' ";
  std::string made;
  std::size_t at = 0;
  for (std::size_t found; (found = text.find(kBefore, at)) != std::string::npos;) {
    const std::size_t digit = found + kBefore.size();
    const bool is = digit + 1 < text.size() && text[digit] >= '0' && text[digit] <= '9' &&
                    text[digit + 1] == '/';
    made.append(text, at, found - at).append(is ? "/'[0-9]/" : "/");
    at = is ? digit + 2 : found + 1;
  }
  return made.append(text, at);
}

}  // namespace

std::string detokenized(std::string_view text) {
  std::string s = replaced(std::string(text), "s '", "s'");
  s = numbers_between_slashes(s);
  for (const auto& [from, to] : {std::pair(" @-@ ", "-"),
                                 std::pair(" @,@ ", ","),
                                 std::pair(" @.@ ", "."),
                                 std::pair(" : ", ": "),
                                 std::pair(" ; ", "; "),
                                 std::pair(" . ", ". "),
                                 std::pair(" ! ", "! "),
                                 std::pair(" ? ", "? "),
                                 std::pair(" , ", ", ")}) {
    s = replaced(s, from, to);
  }
  s = closed_up(s, '(', ')');
  s = closed_up(s, '[', ']');
  s = closed_up(s, '{', '}');
  s = closed_up(s, '"', '"');
  s = closed_up(s, '\'', '\'');
  for (const auto& [from, to] : {std::pair("= = = =", "===="),
                                 std::pair("= = =", "==="),
                                 std::pair("= =", "=="),
                                 std::pair(" \xC2\xB0 ", "\xC2\xB0"),
                                 std::pair(" \n", "\n"),
                                 std::pair("\n ", "\n"),
                                 std::pair(" N ", " 1 "),
                                 std::pair(" 's", "'s")}) {
    s = replaced(s, from, to);
  }
  return s;
}

i64 single_space_tokens(std::string_view text) {
  return std::ranges::count(stripped(text), ' ') + 1;
}

}  // namespace tessera
