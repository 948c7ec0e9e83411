#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// XXH3, 64 bits: the one hash of the project, for checksums, fingerprints and tables. The same on
/// every machine and in every version, so it may be stored.
TESSERA_API u64 hash64(std::span<const std::byte> bytes, u64 seed = 0);
inline u64 hash64(std::string_view text, u64 seed = 0) {
  return hash64(std::as_bytes(std::span(text.data(), text.size())), seed);
}

}  // namespace tessera
