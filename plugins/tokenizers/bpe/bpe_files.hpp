#pragma once
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// Who reads the files, for errors.
inline constexpr std::string_view kReader = "the tokenizer gpt2";

/// A token that is looked for in the text itself, before it is cut into words.
struct AddedToken {
  std::string text;
  i64 id = 0;
  bool single_word = false;  ///< not between characters of a word
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< takes the white space after it
  bool normalized = false;   ///< looked for in the text as the normalizer leaves it
  bool special = false;      ///< text where SpecialTexts::as_text says so
};

/// Byte pair encoding as a folder of transformers says it. Tokens and merges write bytes as
/// printable characters: a space is "Ġ".
struct BpeFiles {
  struct Merge {
    std::string left, right;
    std::string place;  ///< for errors: "merges.txt:4"; empty: its number in tokenizer.json
  };
  std::string file;  ///< that has the tokens
  std::vector<std::pair<std::string, i64>> tokens = {};
  std::vector<Merge> merges = {};
  std::vector<AddedToken> added = {};
};

/// Reads tokenizer.json, or vocab.json and merges.txt; where all are there, they must agree. Throws
/// ConfigError naming the file and what is wrong, is not GPT-2's or is not known: a normalizer,
/// another split into words, tokens that take the spaces beside them.
BpeFiles read_bpe(const std::filesystem::path& folder);

/// The text of a file of the folder. Throws ConfigError naming it.
std::string read_tokenizer_file(const std::filesystem::path& file);
/// Keys of a JSON object that are null.
std::set<std::string> null_keys(const std::filesystem::path& file);

}  // namespace tessera
