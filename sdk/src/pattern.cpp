#include "tessera/pattern.hpp"

#include <cctype>

#include "tessera/error.hpp"

namespace tessera {

namespace {

constexpr std::size_t kLongest = 100'000;  // items; a slip such as "t*1000000" is an error

class Parser {
 public:
  Parser(std::string_view text, const PatternItem& item) : text_(text), item_(item) {}

  std::vector<std::string> all() {
    std::vector<std::string> out = sequence();
    if (at_ < text_.size()) wrong("\")\" without \"(\"");
    return out;
  }

 private:
  std::vector<std::string> sequence() {
    std::vector<std::string> out;
    for (skip(); at_ < text_.size() && text_[at_] != ')'; skip()) {
      const std::vector<std::string> items = one();
      const std::size_t times = repetition();
      if (items.size() * times + out.size() > kLongest) wrong("too many layers");
      for (std::size_t i = 0; i < times; ++i) out.insert(out.end(), items.begin(), items.end());
    }
    return out;
  }

  std::vector<std::string> one() {
    if (text_[at_] == '(') {
      ++at_;
      if (++depth_ > kDeepest) wrong("too many \"(\" within each other");
      std::vector<std::string> inner = sequence();
      --depth_;
      if (at_ == text_.size()) wrong("\"(\" is not closed");
      ++at_;
      return inner;
    }
    std::size_t length = 0;
    try {
      length = item_(text_.substr(at_));
    } catch (const ConfigError& error) {
      wrong(error.what());
    }
    at_ += length;
    return {std::string(text_.substr(at_ - length, length))};
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
    fail_config("{} at character {}", what, at_ + 1);
  }

  static constexpr int kDeepest = 100;
  std::string_view text_;
  const PatternItem& item_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::vector<std::string> expand_pattern(std::string_view text, const PatternItem& item) {
  return Parser(text, item).all();
}

}  // namespace tessera
