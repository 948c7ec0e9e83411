#pragma once
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tessera/types.hpp"

namespace tessera {

/// The 256 characters that files of byte-level tokenizers write for bytes: printable ones of
/// Latin-1 stand for themselves, all others are U+0100, U+0101, … in the order of the bytes.
class ByteAlphabet {
 public:
  ByteAlphabet();
  const std::string& written(unsigned char byte) const { return written_[byte]; }
  std::string written(std::string_view bytes) const;
  /// The bytes that a token stands for. A token with another character, which somebody added,
  /// stands for itself.
  std::string bytes(const std::string& written) const;

 private:
  std::array<std::string, 256> written_;
  std::unordered_map<std::string, char> bytes_;
};

}  // namespace tessera
