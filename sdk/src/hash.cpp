#include "tessera/base/hash.hpp"

#include <xxhash.h>

namespace tessera {

u64 hash64(std::span<const std::byte> bytes, u64 seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace tessera
