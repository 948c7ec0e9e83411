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
};

/// Checks what the library takes on trust: scores, what it looks up in tables of the file, how deep
/// these are. Throws ConfigError naming the file and what is wrong.
ModelFile parse_model(std::string bytes, const std::string& name);
/// The same of a file.
ModelFile read_model(const std::string& path);

}  // namespace tessera
