#pragma once
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "byte_alphabet.hpp"
#include "first_symbols.hpp"
#include "pair_merger.hpp"

namespace tessera {

/// Turns words of a text into tokens. Words come again and again: what the first one became is
/// looked up for the others. For one thread and one text.
class WordEncoder {
 public:
  /// All outlive it. `words_stay`: words that are encoded do so too, and need not be copied.
  WordEncoder(const Vocabulary& vocabulary,
              const BpeRules& rules,
              const FirstSymbols& first_symbols,
              const ByteAlphabet& alphabet,
              bool words_stay)
      : vocabulary_(vocabulary),
        rules_(rules),
        first_symbols_(first_symbols),
        alphabet_(alphabet),
        words_stay_(words_stay),
        merger_(vocabulary) {}
  /// Appends the word's tokens.
  void encode(std::string_view word, std::vector<i32>& ids);

 private:
  void make(std::string_view word, std::vector<i32>& ids);
  std::string_view keep(std::string_view word);

  const Vocabulary& vocabulary_;
  const BpeRules& rules_;
  const FirstSymbols& first_symbols_;
  const ByteAlphabet& alphabet_;
  bool words_stay_;
  PairMerger merger_;
  std::vector<i32> symbols_, kept_;
  std::deque<std::string> words_;  // the keys of known_, one after the other
  std::unordered_map<std::string_view, std::pair<std::size_t, std::size_t>> known_;
};

}  // namespace tessera
