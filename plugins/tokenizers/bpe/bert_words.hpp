#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/types.hpp"
#include "tokenizer_file.hpp"

namespace tessera {

/// BERT's words of a text, found in one pass where the text is ASCII: the steps of its normalizer
/// take many times as long. None of the steps looks across a space, a tab or the end of a line, so
/// what stands between two of these is either ASCII without control characters, or left to the
/// steps.
class BertWords {
 public:
  /// None unless the file's tokens are WordPiece of BERT's steps.
  static std::optional<BertWords> of(const TokenizerFile& file);

  /// Calls take(word) with each word as the vocabulary has it, valid until the next call, and
  /// leave(text) with each part that the steps are to change and to cut, in their order.
  template <class Take, class Leave>
  void for_each(std::string_view text, const Take& take, const Leave& leave) const;

 private:
  enum class Kind : u8 { space, word, mark, beyond };
  struct Chunk {
    std::size_t end = 0;
    bool beyond = false;  // it has a character that is left to the steps
  };

  explicit BertWords(bool lowercase);
  Kind kind(char c) const { return kinds_[static_cast<unsigned char>(c)]; }
  // Finds where the next space is; `written` becomes what is before it, as the vocabulary has it.
  Chunk chunk(std::string_view text, std::size_t begin, std::string& written) const;

  std::array<Kind, 256> kinds_{};
  std::array<char, 256> written_{};
};

inline BertWords::Chunk BertWords::chunk(std::string_view text,
                                         std::size_t begin,
                                         std::string& written) const {
  Chunk chunk{.end = begin};
  written.clear();
  for (; chunk.end < text.size(); ++chunk.end) {
    const char c = text[chunk.end];
    const Kind is = kind(c);
    if (is == Kind::space) break;
    chunk.beyond |= is == Kind::beyond;
    written += written_[static_cast<unsigned char>(c)];
  }
  return chunk;
}

template <class Take, class Leave>
void BertWords::for_each(std::string_view text, const Take& take, const Leave& leave) const {
  std::string written;
  std::size_t left = text.npos, left_end = 0;  // chunks for the steps
  const auto leave_them = [&] {
    if (left != text.npos) leave(text.substr(left, left_end - left));
    left = text.npos;
  };
  for (std::size_t at = 0; at < text.size();) {
    if (kind(text[at]) == Kind::space) {
      ++at;
      continue;
    }
    const Chunk here = chunk(text, at, written);
    if (here.beyond) {
      if (left == text.npos) left = at;
      left_end = here.end;
    } else {
      leave_them();
      const std::string_view words = written;
      for (std::size_t begin = 0, end = 0; begin < words.size(); begin = end) {
        end = begin + 1;
        if (kind(words[begin]) == Kind::word) {
          while (end < words.size() && kind(words[end]) == Kind::word) ++end;
        }
        take(words.substr(begin, end - begin));
      }
    }
    at = here.end;
  }
  leave_them();
}

}  // namespace tessera
