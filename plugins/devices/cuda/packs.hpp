#pragma once
// Neighbouring elements that one thread takes at once: up to sixteen bytes, the most that a GPU
// moves by one instruction.
#include <algorithm>
#include <cstdint>

#include "gpu.hpp"

namespace tessera::cuda {

/// Elements of sixteen bytes.
template <class T>
inline constexpr int kPack = static_cast<int>(16 / sizeof(T));

template <class T, int N = kPack<T>>
struct alignas(std::min<std::size_t>(N * sizeof(T), 16)) Pack {
  T of[N];
};

/// The same as bits of any type.
struct alignas(16) Sixteen {
  u64 low, high;
};

/// Whether packs from here on can be moved as a whole.
template <class T, int N = kPack<T>>
__host__ __device__ bool aligned(const T* address) {
  return reinterpret_cast<std::uintptr_t>(address) % alignof(Pack<T, N>) == 0;
}
/// The same for each row of a matrix; true for one that is absent.
template <class T, int N = kPack<T>>
bool aligned_rows(const TensorArg& matrix) {
  return aligned<T, N>(matrix.as<T>()) && (matrix.rank < 2 || matrix.strides[0] % N == 0);
}

/// values = up to `count` elements, 0 beyond. `whole`: aligned(from).
template <class C, int N, class T>
__device__ __forceinline__ void load(C (&values)[N], const T* from, i64 count, bool whole) {
  if (whole && count >= N) {
    const Pack<T, N> pack = *reinterpret_cast<const Pack<T, N>*>(from);
    for (int n = 0; n < N; ++n) values[n] = static_cast<C>(widen(pack.of[n]));
  } else {
    for (int n = 0; n < N; ++n) values[n] = n < count ? static_cast<C>(widen(from[n])) : C(0);
  }
}

/// The inverse; rounds.
template <class C, int N, class T>
__device__ __forceinline__ void store(T* to, const C (&values)[N], i64 count, bool whole) {
  if (whole && count >= N) {
    Pack<T, N> pack;
    for (int n = 0; n < N; ++n) pack.of[n] = narrow<T>(values[n]);
    *reinterpret_cast<Pack<T, N>*>(to) = pack;
  } else {
    for (int n = 0; n < N; ++n) {
      if (n < count) to[n] = narrow<T>(values[n]);
    }
  }
}

/// Calls f(element, elements from there on) for each pack of a row that this thread of the block
/// takes. Which thread takes an element does not depend on where the row lies in memory, so that
/// sums have the same bits everywhere.
template <int N, class F>
__device__ __forceinline__ void for_packs(i64 width, F f) {
  const i64 step = static_cast<i64>(blockDim.x) * N;
  for (i64 j = static_cast<i64>(threadIdx.x) * N; j < width; j += step) f(j, width - j);
}

/// Threads of a block that takes so many packs: each as many as the others, or one less.
constexpr int threads_for(i64 packs, int most = 256) {
  const i64 turns = std::max<i64>(blocks_for(packs, most), 1);
  return static_cast<int>(std::max<i64>(blocks_for(blocks_for(packs, turns), kWarp), 1) * kWarp);
}

/// Blocks of a kernel that takes a row a block, and further rows where there are more than a grid
/// has: `for (i64 row = blockIdx.x; row < rows; row += gridDim.x)`.
constexpr i64 blocks_of_rows(i64 rows) { return std::min<i64>(rows, 0x7fffffff); }

/// a · b + c, rounded once, and a · b that is rounded before anything is added to it. Left to the
/// compiler, bits may depend on which of two loops takes an element.
template <class C>
__device__ __forceinline__ C multiply_add(C a, C b, C c) {
  return std::fma(a, b, c);
}
template <class C>
__device__ __forceinline__ C product(C a, C b) {
#ifdef __CUDACC__
  if constexpr (sizeof(C) == sizeof(double)) {
    return __dmul_rn(a, b);
  } else {
    return __fmul_rn(a, b);
  }
#else
  return a * b;
#endif
}

}  // namespace tessera::cuda
