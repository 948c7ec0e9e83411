#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// A word of a text: its bytes [begin, end), and a hash of them with A to Z as small letters.
struct TextWord {
  i64 begin = 0, end = 0;
  u64 hash = 0;
};

/// The words of a text, in order, for comparing texts by runs of words: letters, digits and "_" of
/// ASCII, and every other character but the spaces and punctuation of Latin-1 (U+0080 to U+00BF, ×,
/// ÷), General Punctuation (U+2000 to U+206F) and CJK (U+3000 to U+303F, U+FF00 to U+FF0F). Bytes
/// that are no UTF-8 belong to words. Capital letters beyond ASCII differ from small ones.
TESSERA_API std::vector<TextWord> words_of(std::string_view text);

/// A hash of the words [first, first + count).
TESSERA_API u64 hash_words(const std::vector<TextWord>& words, i64 first, i64 count);

}  // namespace tessera
