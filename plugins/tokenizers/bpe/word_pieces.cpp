#include "word_pieces.hpp"

#include <string>

#include "tessera/io/utf8.hpp"

namespace tessera {

void append_pieces(std::string_view word,
                   const Vocabulary& vocabulary,
                   const PieceRules& rules,
                   std::size_t longest,
                   i32 unknown,
                   std::vector<i32>& ids) {
  if (characters_of(word) > rules.most_characters) return ids.push_back(unknown);
  const std::size_t before = ids.size();
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < word.size(); begin = end) {
    const std::string_view prefix = begin == 0 ? "" : std::string_view(rules.prefix);
    const std::string_view rest = word.substr(begin);
    text.assign(prefix).append(rest.substr(0, longest));
    i32 id = -1;
    for (; id < 0 && text.size() > prefix.size(); text.pop_back()) {
      end = begin + text.size() - prefix.size();
      if (end == word.size() || !inside_character(word[end])) id = vocabulary.find(text);
    }
    if (id < 0) {
      ids.resize(before);
      return ids.push_back(unknown);
    }
    ids.push_back(id);
  }
}

}  // namespace tessera
