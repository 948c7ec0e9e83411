#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "byte_alphabet.hpp"
#include "pattern.hpp"
#include "tokenizer_file.hpp"
#include "words.hpp"

namespace tessera {

/// Cuts a text into the words within which tokens may lie. Thread-safe once it is made.
class PreTokenizer {
 public:
  /// `alphabet` outlives it.
  PreTokenizer(const std::vector<SplitStep>& steps, const ByteAlphabet& alphabet);

  /// Whether words are bytes; else they are characters, as a vocabulary writes them.
  bool bytes() const { return bytes_; }
  using Take = std::function<void(std::string_view word)>;
  /// Calls `take` with each word; `text` is UTF-8. `first`: nothing stands before it.
  void for_each(std::string_view text, bool first, const Take& take) const;
  /// The word that bytes are which are no UTF-8.
  std::string word_of(std::string_view bytes) const;

 private:
  struct Step {
    SplitStep what;
    std::optional<Pattern> pattern;
    std::optional<Words> words;
  };
  struct Piece {
    std::string_view text;
    bool first = false;
  };
  void cut(std::size_t at, Piece piece, const Take& take) const;
  void cut_matches(std::size_t at, Piece piece, const Take& take) const;
  void cut_metaspace(std::size_t at, Piece piece, const Take& take) const;
  void cut_bytes(std::size_t at, Piece piece, const Take& take) const;

  const ByteAlphabet& alphabet_;
  std::vector<Step> steps_;
  bool bytes_ = false, writes_bytes_ = false;
};

}  // namespace tessera
