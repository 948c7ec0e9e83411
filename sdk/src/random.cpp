#include "tessera/random.hpp"

#include <xxhash.h>

#include <cmath>
#include <numbers>

namespace tessera {
namespace {

/// 53 of 64 random bits as a multiple of 2^-53 in [0, 1).
double unit(u32 high, u32 low) {
  return static_cast<double>(((u64{high} << 32) | low) >> 11) * 0x1p-53;
}

Philox::Words words_at(u64 key, u64 index) {
  return Philox::words(key, {static_cast<u32>(index), static_cast<u32>(index >> 32), 0, 0});
}

}  // namespace

// XXH64 is fixed by its specification; checkpoints and recorded losses depend on it.
u64 random_key(u64 seed, std::string_view name) { return XXH64(name.data(), name.size(), seed); }

double random_uniform(u64 key, u64 index) {
  const Philox::Words words = words_at(key, index);
  return unit(words[0], words[1]);
}

double random_normal(u64 key, u64 index) {
  const Philox::Words words = words_at(key, index);
  const double radius = std::sqrt(-2.0 * std::log(1.0 - unit(words[0], words[1])));
  return radius * std::cos(2.0 * std::numbers::pi * unit(words[2], words[3]));
}

}  // namespace tessera
