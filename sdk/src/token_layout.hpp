#pragma once
#include <string_view>

#include "tessera/types.hpp"

// Where the parts of PREFIX.idx are (tessera/io/token_index.hpp), for its reader and its writer.
namespace tessera::token_layout {

inline constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
inline constexpr u64 kVersion = 1;
inline constexpr i64 kVersionAt = 9, kTypeAt = 17, kSequencesAt = 18, kBoundsAt = 26, kHeader = 34;

/// Without modes, which take one byte a sequence.
constexpr i64 bytes_of(i64 sequences, i64 documents) {
  return kHeader + 12 * sequences + 8 * (documents + 1);
}

}  // namespace tessera::token_layout
