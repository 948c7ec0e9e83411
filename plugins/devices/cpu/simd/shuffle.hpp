#pragma once
#include "simd/vector.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

[[gnu::always_inline]] inline I zip_mask(int first) {
  I mask;
  for (int i = 0; i < kLanes; ++i) mask[i] = first + i / 2 + (i % 2) * kLanes;
  return mask;
}
/// a0 b0 a1 b1 …, from the lower and from the upper halves.
template <class V>
[[gnu::always_inline]] inline V zip_low(V a, V b) {
  return __builtin_shuffle(a, b, zip_mask(0));
}
template <class V>
[[gnu::always_inline]] inline V zip_high(V a, V b) {
  return __builtin_shuffle(a, b, zip_mask(kLanes / 2));
}

[[gnu::always_inline]] inline I unzip_mask(int first) {
  I mask;
  for (int i = 0; i < kLanes; ++i) mask[i] = first + 2 * i;
  return mask;
}
/// The inverse: a0 a1 … and b0 b1 … of what lies as low, high.
template <class V>
[[gnu::always_inline]] inline V unzip_even(V low, V high) {
  return __builtin_shuffle(low, high, unzip_mask(0));
}
template <class V>
[[gnu::always_inline]] inline V unzip_odd(V low, V high) {
  return __builtin_shuffle(low, high, unzip_mask(1));
}

/// Transposes a kLanes × kLanes tile: each pass interleaves the rows of the upper half with those
/// of the lower, and log2(kLanes) such passes make rows columns.
[[gnu::always_inline]] inline void transpose(F (&rows)[kLanes]) {
#pragma GCC unroll 4
  for (int width = 1; width < kLanes; width *= 2) {
    F next[kLanes];
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = zip_low(rows[i], rows[i + kLanes / 2]);
      next[2 * i + 1] = zip_high(rows[i], rows[i + kLanes / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = next[i];
  }
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA
