#pragma once
#include <string>
#include <vector>

#include "tessera/types.hpp"

namespace tessera::testing {

inline std::string utf8(unsigned character) {
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))};
}

/// How GPT-2's files write a byte.
inline std::string written_byte(unsigned byte) {
  unsigned next = 256;
  for (unsigned b = 0;; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    if (b == byte) return utf8(printable ? b : next);
    if (!printable) ++next;
  }
}

/// A vocabulary in the form of GPT-2's files: bytes have their own values as ids, what is added
/// gets 256, 257, …
class Gpt2Files {
 public:
  Gpt2Files() {
    for (unsigned byte = 0; byte < 256; ++byte) tokens_.push_back(written_byte(byte));
  }
  i32 add(const std::string& token) {
    tokens_.push_back(token);
    return static_cast<i32>(tokens_.size()) - 1;
  }
  i32 merge(const std::string& left, const std::string& right) {
    merges_ += left + " " + right + "\n";
    return add(left + right);
  }
  std::string vocabulary() const {
    std::string text;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const std::string quoted = tokens_[i] == "\"" || tokens_[i] == "\\" ? "\\" : "";
      text += (text.empty() ? "{\"" : ", \"") + quoted + tokens_[i] + "\": " + std::to_string(i);
    }
    return text + "}";
  }
  const std::string& merges() const { return merges_; }

 private:
  std::vector<std::string> tokens_;
  std::string merges_ = "#version: 0.2\n";
};

}  // namespace tessera::testing
