#pragma once
// Products on tensor cores. All lanes of a warp hold parts of three small matrices, their
// fragments, as PTX lays them out. Of lane 4g + t, two values to a register, the first in its lower
// half:
//   a [16 × 16]  rows g, g + 8, g, g + 8, columns 2t and 2t + 1, of the last two 2t + 8 and 2t + 9
//   b [16 × 8]   column g, rows 2t and 2t + 1, of the second 2t + 8 and 2t + 9
//   sums [16 × 8]  (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
#include <bit>

#include "gpu.hpp"

namespace tessera::cuda {

/// The types of values that tensor cores multiply here.
template <class T>
inline constexpr bool kTensorCores = std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;

/// Two values in a register, rounded once.
template <class T>
__device__ __forceinline__ u32 pack(float first, float second) {
  static_assert(kTensorCores<T>);
#ifdef __CUDACC__
  u32 two;
  if constexpr (std::is_same_v<T, Half>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(second), "f"(first));
  }
  return two;
#else
  const auto bits = [](float value) { return u32{std::bit_cast<std::uint16_t>(T(value))}; };
  return bits(first) | bits(second) << 16;
#endif
}

/// sums += a · b, in fp32. All lanes of the warp call it.
template <class T>
__device__ __forceinline__ void mma(float (&sums)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  static_assert(kTensorCores<T>);
#ifdef __CUDACC__
#define TESSERA_MMA(TYPE)                                                             \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE                 \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])           \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
  if constexpr (std::is_same_v<T, Half>) {
    TESSERA_MMA("f16");
  } else {
    TESSERA_MMA("bf16");
  }
#undef TESSERA_MMA
#else
  const auto value = [](u32 bits, int half) {
    return static_cast<float>(std::bit_cast<T>(static_cast<std::uint16_t>(bits >> 16 * half)));
  };
  float left[8], right[4];
  for (int i = 0; i < 8; ++i) left[i] = value(a[i / 2], i % 2);
  for (int i = 0; i < 4; ++i) right[i] = value(i < 2 ? b0 : b1, i % 2);
  emulated::multiply_add(sums, left, right);
#endif
}

/// Four matrices of 8 × 8 from shared memory. Lane 8m + r says where row r of matrix m begins, at a
/// multiple of 16 bytes. Lane 4g + t gets of each matrix row g, columns 2t and 2t + 1; transposed:
/// column g, rows 2t and 2t + 1. All lanes of the warp call it.
template <bool kTransposed, class T>
__device__ __forceinline__ void load_matrices(u32 (&to)[4], const T* row) {
  static_assert(kTensorCores<T>);
#ifdef __CUDACC__
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  }
#else
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) {
    emulated::kernel_error("load_matrices of a row that does not begin at a multiple of 16 bytes");
  }
  const std::byte* rows = emulated::warp_exchange(
      static_cast<const void*>(&row), sizeof row, emulated::Together::matrices);
  const int g = emulated::lane() / 4, t = emulated::lane() % 4;
  for (int m = 0; m < 4; ++m) {
    const auto bits = [&](int r, int c) {
      return u32{std::bit_cast<std::uint16_t>(emulated::lane_value<const T*>(rows, 8 * m + r)[c])};
    };
    to[m] = kTransposed ? bits(2 * t, g) | bits(2 * t + 1, g) << 16
                        : bits(g, 2 * t) | bits(g, 2 * t + 1) << 16;
  }
#endif
}

}  // namespace tessera::cuda
