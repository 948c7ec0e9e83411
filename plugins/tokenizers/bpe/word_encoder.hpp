#pragma once
#include <string_view>
#include <vector>

#include "byte_alphabet.hpp"
#include "first_symbols.hpp"
#include "pair_merger.hpp"
#include "tessera/data.hpp"
#include "word_table.hpp"

namespace tessera {

/// Turns words of a text into tokens. Words come again and again: what the first one became is
/// looked up for the others. For one thread.
class WordEncoder {
 public:
  /// All outlive it.
  WordEncoder(const Vocabulary& vocabulary,
              const BpeRules& rules,
              const FirstSymbols& first_symbols,
              const ByteAlphabet& alphabet)
      : vocabulary_(vocabulary),
        rules_(rules),
        first_symbols_(first_symbols),
        alphabet_(alphabet),
        merger_(vocabulary) {}
  /// Appends the word's tokens.
  void encode(std::string_view word, std::vector<i32>& ids);

 private:
  void make(std::string_view word, std::vector<i32>& ids);

  const Vocabulary& vocabulary_;
  const BpeRules& rules_;
  const FirstSymbols& first_symbols_;
  const ByteAlphabet& alphabet_;
  PairMerger merger_;
  std::vector<i32> symbols_, kept_;
  WordTable known_;
};

/// The ids of one text, of a tokenizer that has append(text, special, words, ids).
template <typename Of>
std::vector<i32> ids_of(const Of& tokenizer, std::string_view text, SpecialTexts special) {
  std::vector<i32> ids;
  WordEncoder words = tokenizer.words();
  tokenizer.append(text, special, words, ids);
  return ids;
}

/// The texts of one thread, for such a tokenizer.
template <typename Of>
class WordsOfTexts final : public TextEncoder {
 public:
  WordsOfTexts(const Of& tokenizer, SpecialTexts special)
      : tokenizer_(tokenizer), special_(special), words_(tokenizer.words()) {}
  void append(std::string_view text, std::vector<i32>& ids) override {
    tokenizer_.append(text, special_, words_, ids);
  }

 private:
  const Of& tokenizer_;
  SpecialTexts special_;
  WordEncoder words_;
};

}  // namespace tessera
