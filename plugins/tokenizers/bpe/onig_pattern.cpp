// From Oniguruma's Ruby syntax, which tokenizer.json is written in, to PCRE2's.
#include <algorithm>
#include <array>
#include <vector>

#include "pattern.hpp"
#include "tessera/error.hpp"
#include "tessera/io/utf8.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

// Contents of character classes, spelled out because the libraries differ in what they are.
constexpr const char* kSpace =
    R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr const char* kNoSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}!-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff})"
    R"(\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr const char* kWord = R"(\p{L}\p{M}\p{Nl}\p{Nd}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149})"
                              R"(\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
constexpr std::array<std::string_view, 37> kCategories = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
    "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
    "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};
constexpr std::array<std::string_view, 11> kScripts = {"Arabic",
                                                       "Cyrillic",
                                                       "Devanagari",
                                                       "Greek",
                                                       "Han",
                                                       "Hangul",
                                                       "Hebrew",
                                                       "Hiragana",
                                                       "Katakana",
                                                       "Latin",
                                                       "Thai"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

std::string as_it_stands(std::string_view text) {
  std::string made;
  for (const char c : text) {
    if (is_ascii(c) && !is_letter(c) && !is_digit(c) && c > ' ' && c != 0x7F) made += '\\';
    made += c;
  }
  return made;
}

class Translator {
 public:
  explicit Translator(const PatternText& pattern) : pattern_(pattern), text_(pattern.text) {}

  std::string run() {
    if (take("(?i)")) {
      made_ += "(?i)";
      caseless_.push_back(true);
    } else {
      caseless_.push_back(false);
    }
    while (at_ < text_.size()) item();
    return made_;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail_config("{} has \"{}\" at byte {}, which the tokenizer huggingface does not do",
                pattern_.place,
                written_plain(what),
                at_);
  }
  std::string_view rest() const { return std::string_view(text_).substr(at_); }
  bool take(std::string_view what) {
    if (!rest().starts_with(what)) return false;
    at_ += what.size();
    return true;
  }

  void item() {
    const char c = text_[at_];
    if (c == '\\') return escape(false);
    if (c == '[') return character_class();
    if (c == '(') return group();
    if (c == '{') return repeat();
    if (c == ')') {
      if (caseless_.size() == 1) refuse(")");
      caseless_.pop_back();
    } else if (std::string_view("|*+?^$.").find(c) == std::string_view::npos) {
      return literal();
    }
    made_ += c;
    ++at_;
  }

  // Without case, some letters are also found as one character, which PCRE2 does not do.
  void literal() {
    const std::string_view character = next_character(rest());
    if (caseless_.back()) {
      if (character.size() > 1) refuse(character);
      for (const char* pair : {"ss", "ff", "fi", "fl", "st"}) {
        const std::string_view next = rest().substr(0, 2);
        const auto same = [](char a, char b) { return (a | 0x20) == b; };
        if (std::ranges::equal(next, std::string_view(pair), same)) refuse(next);
      }
    }
    if (character == "]" || character == "}") made_ += '\\';
    made_ += character;
    at_ += character.size();
  }

  void group() {
    for (const char* open : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:"}) {
      if (!take(open)) continue;
      made_ += open;
      caseless_.push_back(std::string_view(open) == "(?i:" || caseless_.back());
      return;
    }
    if (rest().starts_with("(?") || rest().starts_with("(*")) refuse(rest().substr(0, 4));
    made_ += '(';
    ++at_;
    caseless_.push_back(caseless_.back());
  }

  // {2}, {2,}, {2,3}, {,3}; "+" after it repeats once more here, "?" after {2} makes it optional.
  void repeat() {
    std::size_t end = at_ + 1, commas = 0, digits = 0;
    for (; end < text_.size() && (is_digit(text_[end]) || text_[end] == ','); ++end) {
      (text_[end] == ',' ? commas : digits) += 1;
    }
    if (end >= text_.size() || text_[end] != '}' || commas > 1 || digits == 0)
      return literal_brace();
    const std::string_view all = rest().substr(0, end + 2 - at_);
    if (all.ends_with('+') || (all.ends_with('?') && commas == 0)) refuse(all);
    std::string inside = text_.substr(at_ + 1, end - at_ - 1);
    if (inside.starts_with(',')) inside = "0" + inside;
    made_ += "{" + inside + "}";
    at_ = end + 1;
  }
  void literal_brace() {
    made_ += "\\{";
    ++at_;
  }

  void character_class() {
    made_ += '[';
    ++at_;
    if (take("^")) made_ += '^';
    if (rest().starts_with(']')) refuse("[]");
    bool after_set = false;  // where "-" would be the begin of no range
    for (bool first = true; !take("]"); first = false) {
      if (at_ >= text_.size()) refuse("[");
      const char c = text_[at_];
      if (c == '[' || rest().starts_with("&&")) refuse(rest().substr(0, 2));
      if (c == '-' && !first && !after_set && at_ + 2 < text_.size() && text_[at_ + 1] == '\\' &&
          std::string_view("dDsSwWhpP").find(text_[at_ + 2]) != std::string_view::npos) {
        refuse(rest().substr(0, 3));
      }
      if (c == '\\') {
        after_set = set_or_escape();
        continue;
      }
      if (c == '-' && after_set) made_ += '\\';
      if (caseless_.back() && !is_ascii(c)) refuse(next_character(rest()));
      after_set = false;
      made_ += c;
      ++at_;
    }
    made_ += ']';
  }
  // True where it is a set of characters.
  bool set_or_escape() {
    const bool set = at_ + 1 < text_.size() &&
                     std::string_view("dDsSwWhpP").find(text_[at_ + 1]) != std::string_view::npos;
    escape(true);
    return set;
  }

  void escape(bool inside) {
    const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    const std::string_view both = rest().substr(0, 2);
    const auto put = [&](std::string_view what) {
      made_ += what;
      at_ += 2;
    };
    const auto set = [&](const std::string& contents) {
      put(inside ? contents : "[" + contents + "]");
    };
    if (std::string_view("nrtfae").find(c) != std::string_view::npos) return put(both);
    if (c == 'v') return put("\\x0b");
    if (c == 'd') return put("\\p{Nd}");
    if (c == 'D') return put("\\P{Nd}");
    if (c == 's') return set(kSpace);
    if (c == 'S') return set(kNoSpace);
    if (c == 'w') return set(kWord);
    if (c == 'W' && !inside) return put("[^" + std::string(kWord) + "]");
    if (c == 'h') return set("0-9a-fA-F");
    if (c == 'p' || c == 'P') return property(c == 'P');
    if (c == 'u' || c == 'x') return code(c);
    if (c == 'b' || c == 'B') return boundary(c == 'B', inside);
    if ((c == 'A' || c == 'z' || c == 'Z') && !inside) return put(both);
    if (c == 'R' && !inside) return put(R"((?>\r\n|[\n-\r\x{85}\x{2028}\x{2029}]))");
    if (c == '\0' || is_letter(c) || is_digit(c)) refuse(both);
    if (is_ascii(c)) return put(both);
    const std::string_view character = next_character(rest().substr(1));
    made_ += character;
    at_ += 1 + character.size();
  }

  void property(bool no) {
    if (caseless_.back()) refuse(rest().substr(0, 2));
    const std::size_t end = rest().find('}');
    if (end == rest().npos || at_ + 2 >= text_.size() || text_[at_ + 2] != '{') {
      refuse(rest().substr(0, 3));
    }
    std::string_view name = rest().substr(3, end - 3);
    if (name.starts_with('^')) {
      no = !no;
      name.remove_prefix(1);
    }
    const bool script = std::ranges::find(kScripts, name) != kScripts.end();
    if (!script && std::ranges::find(kCategories, name) == kCategories.end()) {
      refuse(rest().substr(0, end + 1));
    }
    made_ += fmt::format("\\{}{{{}{}}}", no ? 'P' : 'p', script ? "sc:" : "", name);
    at_ += end + 1;
  }

  // \u00e9, \x{e9}, \x41.
  void code(char kind) {
    const bool braces = kind == 'x' && rest().substr(2).starts_with('{');
    std::size_t begin = at_ + (braces ? 3 : 2), end = begin;
    const std::size_t most = kind == 'u' ? 4 : braces ? 8 : 2;
    const auto is_hex = [](char c) {
      return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
    };
    while (end < text_.size() && end - begin < most && is_hex(text_[end])) ++end;
    const std::string digits = text_.substr(begin, end - begin);
    const bool whole =
        braces ? !digits.empty() && end < text_.size() && text_[end] == '}' : digits.size() == most;
    const bool byte = kind == 'x' && !braces && digits >= "8";  // a byte of UTF-8 there
    if (!whole || byte || caseless_.back()) refuse(rest().substr(0, end - at_ + 1));
    made_ += "\\x{" + digits + "}";
    at_ = end + (braces ? 1 : 0);
  }

  void boundary(bool no, bool inside) {
    if (inside && no) refuse("\\B");
    const std::string word = "[" + std::string(kWord) + "]";
    if (inside) {
      made_ += "\\x08";
    } else {
      made_ += no ? fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", word)
                  : fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", word);
    }
    at_ += 2;
  }

  const PatternText& pattern_;
  const std::string& text_;
  std::size_t at_ = 0;
  std::string made_;
  std::vector<bool> caseless_;  // of the groups that are open
};

}  // namespace

std::string pcre2_pattern(const PatternText& pattern) {
  return pattern.regex ? Translator(pattern).run() : as_it_stands(pattern.text);
}

}  // namespace tessera
