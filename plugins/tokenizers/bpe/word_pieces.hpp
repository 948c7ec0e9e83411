#pragma once
#include <string_view>
#include <vector>

#include "tokenizer_file.hpp"
#include "vocabulary.hpp"

namespace tessera {

/// Appends the tokens that a word is cut into, each as long as it can be, and of no more bytes than
/// `longest`; `unknown` alone where there is none somewhere in the word, or the word is too long.
void append_pieces(std::string_view word,
                   const Vocabulary& vocabulary,
                   const PieceRules& rules,
                   std::size_t longest,
                   i32 unknown,
                   std::vector<i32>& ids);

}  // namespace tessera
