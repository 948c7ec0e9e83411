#pragma once
// A tensor core multiplies also what a row must not see, by a weight of 0. That is 0 only where all
// values are finite.
#include "attention_tensor_tiles.hpp"

namespace tessera::cuda::attention {

/// The exponent's bits of a value that is not finite, and the bits of 1.
template <class T>
inline constexpr u32 kNotFinite = std::is_same_v<T, Half> ? 0x7c00 : 0x7f80;
template <class T>
inline constexpr u32 kOne = std::is_same_v<T, Half> ? 0x3c00 : 0x3f80;

/// For two values: 1 for each that is not finite, else 0.
template <class T>
__device__ __forceinline__ u32 not_finite(u32 two) {
  const u32 low = two & kNotFinite<T>, high = two >> 16 & kNotFinite<T>;
  return (low == kNotFinite<T> ? kOne<T> : 0) | (high == kNotFinite<T> ? kOne<T> : 0) << 16;
}

/// Makes a tile of `kRows` others fit for a product with weights of which some are hidden:
/// sees(part, h, c), numbered as the weights are, tells which are not. Values that are not finite
/// become 0 in the tile, and NaN in the sums of the rows that see them. All threads of a block call
/// it; before any goes on, all have read the tile. `at`: the first feature of the warp's sums.
template <class T, int kFeatures, int kRows, int kSums, class Sees>
__device__ __forceinline__ void keep_from_hidden(
    T* tile, float (&sums)[kSums][2][4], int at, int features, Sees sees) {
  constexpr int kStride = TensorTiles<T, kFeatures>::kStride;
  const auto for_twos = [&](auto f) {
    constexpr int kAcross = kFeatures / 2;
    for (int n = static_cast<int>(threadIdx.x); n < kRows * kAcross; n += kThreads) {
      const int feature = n % kAcross * 2;
      if (feature < features) f(*reinterpret_cast<u32*>(tile + n / kAcross * kStride + feature));
    }
  };
  bool found = false;
  for_twos([&](u32 two) { found |= not_finite<T>(two) != 0; });
  if (!__syncthreads_or(found)) return;
  TESSERA_UNROLL for (int n = 0; n < kSums; ++n) {
    if (at + n * kPart >= features) continue;
    float counts[2][4] = {};
    TESSERA_DO_NOT_UNROLL for (int p = 0; p < kRows / kPart; ++p) {
      u32 a[4], b[4];
      TESSERA_UNROLL for (int i = 0; i < 4; ++i) {
        const int h = i / 2, c = i % 2 * 2;
        a[i] = (sees(p, h, c) ? kOne<T> : 0) | (sees(p, h, c + 1) ? kOne<T> : 0) << 16;
      }
      tensor_tiles::load_b<false, kStride>(b, tile + p * kPart * kStride + at + n * kPart);
      TESSERA_UNROLL for (int i = 0; i < 4; ++i) b[i] = not_finite<T>(b[i]);
      tensor_tiles::multiply<T>(counts, a, b);
    }
    TESSERA_UNROLL for (int c = 0; c < 8; ++c) {
      if (counts[c / 4][c % 4] != 0) {
        sums[n][c / 4][c % 4] = std::numeric_limits<float>::quiet_NaN();
      }
    }
  }
  __syncthreads();
  for_twos([](u32& two) {
    const u32 ones = not_finite<T>(two);
    two &= ((ones & 0xffff) != 0 ? 0 : 0xffffU) | (ones >> 16 != 0 ? 0 : 0xffff0000U);
  });
  __syncthreads();
}

}  // namespace tessera::cuda::attention
