#pragma once
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer_file.hpp"
#include "vocabulary.hpp"

namespace tessera {

/// How words become tokens, beyond vocabulary and merges.
struct BpeRules {
  bool bytes = true;           ///< a word is bytes, which files write as printable characters
  bool byte_fallback = false;  ///< a character without a token is tokens "<0x0A>" of its bytes
  bool fuse_unknown = false;   ///< neighbours without a token are one unknown token
  bool whole_words = false;    ///< a word that is a token is that token, whatever merges make
  i32 unknown = -1;            ///< token of what has no other; -1: it is left out
  std::optional<PieceRules> pieces = {};  ///< a word is cut by them, and not merged
};

/// The tokens of single bytes or characters, before any are merged.
class FirstSymbols {
 public:
  /// `vocabulary` outlives it.
  FirstSymbols(const Vocabulary& vocabulary, const BpeRules& rules);
  /// Replaces `symbols`.
  void find(std::string_view word, std::vector<i32>& symbols) const;

 private:
  const Vocabulary& vocabulary_;
  BpeRules rules_;
  std::array<i32, 256> of_byte_{};          // where words are bytes
  bool every_byte_ = true;                  // has a token of its own
  std::array<i32, 256> fallback_{};         // "<0x00>" to "<0xFF>"
  std::vector<std::string> written_bytes_;  // where a byte without a token has to be written
};

}  // namespace tessera
