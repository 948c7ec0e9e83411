#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// A token of a SentencePiece model (sentencepiece_model.proto of its sources).
struct ModelPiece {
  enum class Type : u8 { normal = 1, unknown, control, user_defined, unused, byte };
  std::string text;
  Type type = Type::normal;
};

/// The bytes of a .model file, and its tokens by id.
struct ModelFile {
  std::string name;  ///< for errors
  std::string bytes;
  std::vector<ModelPiece> pieces = {};
  u64 model_type = 1;                ///< 1: unigram, 2: BPE, 3: words, 4: characters
  bool has_char_map = false;         ///< texts are changed by a table of characters
  bool space_before = true;          ///< each text has a space before it
  bool spaces_are_marked = true;     ///< "▁" stands for a space
  bool spaces_are_suffixes = false;  ///< they belong to the word before them
};

/// Checks what the library takes on trust: scores, what it looks up in tables of the file, how deep
/// these are. Throws ConfigError naming the file and what is wrong.
ModelFile parse_model(std::string bytes, const std::string& name);
/// The same of a file.
ModelFile read_model(const std::string& path);

}  // namespace tessera
