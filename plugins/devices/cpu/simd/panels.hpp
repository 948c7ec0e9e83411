#pragma once
#include "simd/words.hpp"

// How the factors of products are packed: panels of columns, groups of rows.
namespace tessera::cpu::TESSERA_ISA {
namespace {

// Rows and columns of the sums that registers hold.
#if defined(TESSERA_BASE_ISA)
constexpr int kPackedRows = 32, kPackedVectors = 32 / kLanes;
#elif defined(__AVX512F__)
constexpr int kPackedRows = 8, kPackedVectors = 3;
#elif defined(__AVX2__)
constexpr int kPackedRows = 4, kPackedVectors = 3;
#else
constexpr int kPackedRows = 4, kPackedVectors = 2;
#endif

constexpr i64 kPanel = kPackedVectors * kLanes;                        // columns
constexpr i64 kRowUnit = kPackedRows > kLanes ? kPackedRows : kLanes;  // of groups

template <class T>
inline Factor<T> factor_of(const TensorArg& matrix, bool lines_are_rows) {
  const i64 stride = matrix.strides[0];
  return {matrix.as<const T>(), lines_are_rows ? stride : 1, lines_are_rows ? 1 : stride};
}

/// Packs columns [first, first + n) of a right factor; `place(i)` is where slab i of a panel
/// begins.
template <class T, class Place>
inline void pack_panels(Factor<T> from, i64 first, i64 n, i64 depth, Place place) {
  pack_slabs(from, first, n, depth, place, kPanel);
  const i64 steps = steps_of<T>(depth);
  for (i64 slab = 0; slab * kLanes < n; ++slab) clear_steps(place(slab), steps, kPanel);
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA
