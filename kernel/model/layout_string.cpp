#include "kernel/model/layout_string.hpp"

#include <cctype>

#include "tessera/error.hpp"

namespace tessera {

namespace {

constexpr std::size_t kLongest = 100'000;  // letters; a slip such as "t*1000000" is an error

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::string all() {
    std::string out = sequence();
    if (at_ < text_.size()) wrong("\")\" without \"(\"");
    return out;
  }

 private:
  std::string sequence() {
    std::string out;
    for (skip(); at_ < text_.size() && text_[at_] != ')'; skip()) {
      const std::string item = one();
      const std::size_t times = repetition();
      if (item.size() * times + out.size() > kLongest) wrong("too many layers");
      for (std::size_t i = 0; i < times; ++i) out += item;
    }
    return out;
  }

  std::string one() {
    const char c = text_[at_];
    if (c == '(') {
      ++at_;
      std::string inner = sequence();
      if (at_ == text_.size()) wrong("\"(\" is not closed");
      ++at_;
      return inner;
    }
    if (c == 'm') wrong("no model of this version has layers \"m\" (multi-token prediction)");
    if (c != 'E' && c != 't' && c != 'L' && c != '|') {
      wrong(fmt::format("unexpected \"{}\"; E, t, L, |, (…) and *n are known", c));
    }
    ++at_;
    return std::string(1, c);
  }

  std::size_t repetition() {
    skip();
    if (at_ == text_.size() || text_[at_] != '*') return 1;
    ++at_;
    skip();
    std::size_t times = 0, digits = 0;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0; ++at_) {
      times = times * 10 + static_cast<std::size_t>(text_[at_] - '0');
      if (++digits > 6) wrong("too many layers");
    }
    if (times == 0) wrong("\"*\" needs a positive number");
    return times;
  }

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == ',')) ++at_;
  }

  [[noreturn]] void wrong(std::string_view what) const {
    fail_config("[placement] layout = \"{}\": {} at character {}", text_, what, at_ + 1);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::string> parse_layout(std::string_view text) {
  std::vector<std::string> stages{""};
  for (const char c : Parser(text).all()) {
    if (c == '|') {
      stages.emplace_back();
    } else {
      stages.back() += c;
    }
  }
  return stages;
}

}  // namespace tessera
