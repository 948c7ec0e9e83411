#pragma once
// Tiles in shared memory of which tensor cores take fragments. A row is 16 bytes longer than what
// it holds, so that the eight rows of a matrix lie in different banks.
#include "copy_async.hpp"
#include "packs.hpp"
#include "tensor_cores.hpp"
#include "unroll.hpp"

namespace tessera::cuda::tensor_tiles {

/// Rows, columns and depth of the parts of a product that a warp takes at once.
inline constexpr int kPart = 16;

/// Elements between two rows of `width`.
constexpr int stride_of(int width) { return width + 8; }

__device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
/// A lane's row of a fragment, and the first of its two columns.
__device__ __forceinline__ int fragment_row() { return lane() / 4; }
__device__ __forceinline__ int fragment_column() { return lane() % 4 * 2; }

/// Fragment a of a part [row, depth], or [depth, row], which begins at `part`.
template <bool kDeepRows, int kStride, class T>
__device__ __forceinline__ void load_a(u32 (&a)[4], const T* part) {
  const int matrix = lane() / 8, row = lane() % 8;
  const int low = matrix % 2 * 8, high = matrix / 2 * 8;
  load_matrices<!kDeepRows>(
      a, part + (row + (kDeepRows ? low : high)) * kStride + (kDeepRows ? high : low));
}

/// Fragments b of a part [column, depth], or [depth, column], of 16 columns: two registers for the
/// first eight of them, two for the others.
template <bool kDeepRows, int kStride, class T>
__device__ __forceinline__ void load_b(u32 (&b)[4], const T* part) {
  const int matrix = lane() / 8, row = lane() % 8;
  const int low = matrix % 2 * 8, high = matrix / 2 * 8;
  load_matrices<!kDeepRows>(
      b, part + (row + (kDeepRows ? high : low)) * kStride + (kDeepRows ? low : high));
}

/// sums [16 × 16] += a · b
template <class T>
__device__ __forceinline__ void multiply(float (&sums)[2][4],
                                         const u32 (&a)[4],
                                         const u32 (&b)[4]) {
  mma<T>(sums[0], a, b[0], b[1]);
  mma<T>(sums[1], a, b[2], b[3]);
}

/// Begins to copy eight elements into a tile, of which `count` (which may be less than 0, or more)
/// exist; the others are 0. Where `whole` does not hold, from need not be aligned: then they are
/// there at once.
template <class T>
__device__ __forceinline__ void fetch(T* to, const T* from, int count, bool whole) {
  constexpr int kEach = kPack<T>;
  count = count < 0 ? 0 : (count < kEach ? count : kEach);
  if (whole) return copy_async(to, from, count * static_cast<int>(sizeof(T)));
  Pack<T> pack;
  TESSERA_UNROLL for (int e = 0; e < kEach; ++e) {
    pack.of[e] = e < count ? from[e] : narrow<T>(0.0F);
  }
  *reinterpret_cast<Pack<T>*>(to) = pack;
}

}  // namespace tessera::cuda::tensor_tiles
