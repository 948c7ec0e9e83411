#include "first_symbols.hpp"

#include <algorithm>

#include "byte_alphabet.hpp"
#include "tessera/error.hpp"
#include "tessera/io/utf8.hpp"

namespace tessera {

namespace {

// Puts symbols after each other. An unknown character waits for its neighbour, which it may be
// fused with; bytes of a character go before one that waits, as tokenizers of Hugging Face has it.
class Line {
 public:
  Line(const BpeRules& rules, const std::array<i32, 256>& fallback, std::vector<i32>& symbols)
      : rules_(rules), fallback_(fallback), symbols_(symbols) {}

  void known(i32 id) {
    finish();
    symbols_.push_back(id);
  }
  void unknown(std::string_view character) {
    const auto token = [&](char c) { return fallback_[static_cast<unsigned char>(c)]; };
    if (rules_.byte_fallback &&
        std::ranges::all_of(character, [&](char c) { return token(c) >= 0; })) {
      for (const char c : character) symbols_.push_back(token(c));
      return;
    }
    if (rules_.unknown < 0) return;
    if (!rules_.fuse_unknown) finish();
    waits_ = true;
  }
  void finish() {
    if (waits_) symbols_.push_back(rules_.unknown);
    waits_ = false;
  }

 private:
  const BpeRules& rules_;
  const std::array<i32, 256>& fallback_;
  std::vector<i32>& symbols_;
  bool waits_ = false;
};

}  // namespace

FirstSymbols::FirstSymbols(const Vocabulary& vocabulary, const BpeRules& rules)
    : vocabulary_(vocabulary), rules_(rules) {
  const ByteAlphabet alphabet;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    of_byte_[byte] = vocabulary.of_byte(static_cast<unsigned char>(byte));
    every_byte_ = every_byte_ && of_byte_[byte] >= 0;
    fallback_[byte] = vocabulary.find(fmt::format("<0x{:02X}>", byte));
    written_bytes_.push_back(alphabet.written(static_cast<unsigned char>(byte)));
  }
}

void FirstSymbols::find(std::string_view word, std::vector<i32>& symbols) const {
  symbols.clear();
  if (rules_.bytes && every_byte_) {
    for (const char c : word) symbols.push_back(of_byte_[static_cast<unsigned char>(c)]);
    return;
  }
  Line line(rules_, fallback_, symbols);
  if (rules_.bytes) {
    for (const char c : word) {
      const auto byte = static_cast<unsigned char>(c);
      if (of_byte_[byte] >= 0) {
        line.known(of_byte_[byte]);
      } else {
        line.unknown(written_bytes_[byte]);
      }
    }
  } else {
    for (std::size_t at = 0; at < word.size();) {
      const std::string_view character = next_character(word.substr(at));
      const i32 id = vocabulary_.find(character);
      if (id >= 0) {
        line.known(id);
      } else {
        line.unknown(character);
      }
      at += character.size();
    }
  }
  line.finish();
}

}  // namespace tessera
