#pragma once
#include "simd/words.hpp"

// Tiles of products of packed matrices: what a core computes without leaving its registers. Both
// factors are cut into slabs of kLanes rows or columns, and a slab holds, step by step of the inner
// dimension, a word of each.
namespace tessera::cpu::TESSERA_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kPackedRows = 8, kPackedVectors = 3;  // a tile of sums that registers hold
#elif defined(__AVX2__)
constexpr int kPackedRows = 4, kPackedVectors = 3;
#else
constexpr int kPackedRows = 4, kPackedVectors = 2;
#endif

constexpr i64 kPanel = kPackedVectors * kLanes;  // columns

inline i64 round_up(i64 n, i64 unit) { return (n + unit - 1) / unit * unit; }
inline i64 at_most(i64 a, i64 b) { return a < b ? a : b; }

template <class T>
inline Factor<T> factor_of(const TensorArg& matrix, bool lines_are_rows) {
  const i64 stride = matrix.strides[0];
  return {matrix.as<const T>(), lines_are_rows ? stride : 1, lines_are_rows ? 1 : stride};
}

/// Where a product goes: out = sums + bias, or out += sums. All but the last part of the inner
/// dimension go to `partial`, [m, n], if there is one.
template <class T, class Out>
struct Target {
  Out* out;
  i64 stride;
  const T* bias;
  bool accumulate;
  float* partial = nullptr;
  i64 width = 0;
  bool first = true, last = true;
  template <class Count>
  [[gnu::always_inline]] void put(i64 row, i64 column, F sum, Count count) const {
    if (partial != nullptr) {
      float* sums = partial + row * width + column;
      if (!first) sum += load(sums, count);
      if (!last) return store(sums, sum, count);
    }
    Out* to = out + row * stride + column;
    if (accumulate) sum += load(to, count);
    if (bias != nullptr) sum += load(bias + column, count);
    store(to, sum, count);
  }
};

/// sums = a · b over all steps, for kPackedRows rows of a slab and kVectors slabs of columns.
template <int kVectors, class Word>
[[gnu::always_inline]] inline void packed_tile(const Word* a,
                                               const Word* b,
                                               i64 steps,
                                               F (&sums)[kPackedRows][kVectors]) {
#pragma GCC unroll 8
  for (int i = 0; i < kPackedRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[i][v] = F{};
  }
  for (i64 step = 0; step < steps; ++step) {
    F row[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      row[v] = load_words(b + (step * kPackedVectors + v) * kLanes);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kPackedRows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[i][v] = multiply_add(sums[i][v], a[step * kLanes + i], row[v]);
      }
    }
  }
}

/// One tile: `rows` of a slab by `columns` of a panel.
template <int kVectors, class Word, class To>
inline void product_tile(const Word* a,
                         const Word* b,
                         i64 steps,
                         const To& to,
                         i64 row,
                         i64 rows,
                         i64 column,
                         i64 columns) {
  F sums[kPackedRows][kVectors];
  packed_tile<kVectors>(a, b, steps, sums);
  if (rows >= kPackedRows && columns >= kVectors * kLanes) {
#pragma GCC unroll 8
    for (int i = 0; i < kPackedRows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        to.put(row + i, column + v * kLanes, sums[i][v], Whole{});
      }
    }
    return;
  }
  for (i64 i = 0; i < kPackedRows; ++i) {
    if (i >= rows) break;
    for (i64 v = 0; v < kVectors; ++v) {
      const i64 left = columns - v * kLanes;
      if (left > 0) {
        to.put(row + i, column + v * kLanes, sums[i][v], left < kLanes ? left : kLanes);
      }
    }
  }
}

template <class Word, class To>
inline void product_of_panel(const Word* a,
                             const Word* b,
                             i64 steps,
                             const To& to,
                             i64 row,
                             i64 rows,
                             i64 column,
                             i64 columns) {
  for (i64 i = 0; i < rows; i += kPackedRows) {
    const Word* tile = a + i / kLanes * kLanes * steps + i % kLanes;
    const i64 left = rows - i;
    if (columns > 2 * kLanes && kPackedVectors > 2) {
      product_tile<kPackedVectors>(tile, b, steps, to, row + i, left, column, columns);
    } else if (columns > kLanes) {
      product_tile<2>(tile, b, steps, to, row + i, left, column, columns);
    } else {
      product_tile<1>(tile, b, steps, to, row + i, left, column, columns);
    }
  }
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA
