#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/data.hpp"

namespace tessera {

/// What is between words.
inline constexpr std::string_view kSpaces = " \t\r\n";

/// Tokens of a text and the bytes of it that each is made of: [begin, end).
struct PlacedTokens {
  std::vector<i32> ids;
  std::vector<u32> begin, end;
};

/// Finds which bytes tokens are made of, with a tokenizer alone. A text is cut at white space; a
/// word, between two characters that are tokens of their own wherever they meet, as marks of
/// punctuation are; and what is left, by the characters that its first tokens are decoded to. Where
/// these are not as many as it has (a character whose lower-case or accentless form is several),
/// each of its tokens has all of it. Keeps what it found out about words. One thread.
class TokenPlacer {
 public:
  explicit TokenPlacer(const Tokenizer& tokenizer);
  /// Throws ConfigError, which begins with `where`, for a tokenizer whose tokens of a text are not
  /// those of its words.
  PlacedTokens place(std::string_view text, const std::string& where);

 private:
  const PlacedTokens& word(std::string_view text);
  PlacedTokens place_word(std::string_view text);
  void place_piece(std::string_view piece, u32 begin, PlacedTokens& out);
  std::vector<std::size_t> cuts(std::string_view word);
  bool apart(std::string_view before, std::string_view between, std::string_view after);
  std::vector<i32> encoded(std::string_view text);

  const Tokenizer& tokenizer_;
  std::unique_ptr<TextEncoder> encoder_;
  std::unordered_map<std::string, PlacedTokens> words_;
  std::unordered_map<std::string, bool> apart_;
};

}  // namespace tessera
