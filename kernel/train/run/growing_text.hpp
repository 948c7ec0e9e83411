#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data.hpp"

namespace tessera {

/// Why a text ended.
enum class TextEnd : u8 { none, eos, stop, length };
/// "eos", "stop", "length".
std::string_view name_of(TextEnd end);

/// Where a text ends.
struct TextLimits {
  i64 tokens = 0;                       ///< that follow the prompt, at most
  std::vector<i32> ends = {};           ///< tokens that end it, and are no part of it
  std::vector<std::string> stops = {};  ///< it ends before the first of these, wherever they begin
};

/// A prompt and what follows it, token by token. For one thread.
class GrowingText {
 public:
  /// `tokenizer` outlives it. `limits.tokens` is at least 1.
  GrowingText(const Tokenizer& tokenizer, std::vector<i32> prompt, TextLimits limits);
  /// Takes the token that comes next; it must not be over.
  void add(i32 id);

  bool over() const { return end_ != TextEnd::none; }
  TextEnd end() const { return end_; }
  /// The prompt's tokens, then all that were added.
  const std::vector<i32>& tokens() const { return tokens_; }
  /// The tokens that were added.
  std::vector<i32> added() const;
  const std::string& prompt() const { return prompt_; }
  /// What follows the prompt, as far as no later token changes it: without half a character, and
  /// without what may be the beginning of a stop. All of it once it is over.
  std::string_view text() const { return std::string_view(text_).substr(0, certain()); }

 private:
  std::size_t certain() const;

  const Tokenizer& tokenizer_;
  TextLimits limits_;
  std::vector<i32> tokens_;
  std::size_t first_ = 0;  // of tokens_ after the prompt
  std::string prompt_, text_;
  TextEnd end_ = TextEnd::none;
};

}  // namespace tessera
