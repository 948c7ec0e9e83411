#pragma once
#include "simd/tile.hpp"
#include "simd/words.hpp"

#if defined(TESSERA_BASE_ISA)
#include "simd/tile_sums.hpp"
#endif

// Products of blocks that fit a core's cache, for attention.
namespace tessera::cpu::TESSERA_ISA {
namespace {

/// A left factor: word (i, p) at data[i · stride + p], or data[p · stride + i] transposed.
template <bool kTransposed, class Word>
struct Left {
  const Word* data;
  i64 stride;
  [[gnu::always_inline]] Word at(i64 i, i64 p) const {
    return kTransposed ? data[p * stride + i] : data[i * stride + p];
  }
};

#if defined(TESSERA_BASE_ISA)

/// c [rows, columns] = or += a [rows, depth] · b [depth, columns], depth in words. Whole tiles are
/// computed: c and a have room for rows, columns and steps up to them, and the words of steps
/// beyond depth are zero.
inline void block_product(Left<false, u32> a,
                          const u32* b,
                          i64 b_stride,
                          float* c,
                          i64 c_stride,
                          i64 rows,
                          i64 columns,
                          i64 depth,
                          bool accumulate) {
  for (i64 i = 0; i < rows; i += kSumSide) {
    const auto* row = reinterpret_cast<const std::byte*>(a.data + i * a.stride);
    const LeftRows left = {row, 4 * a.stride, kSumSide};
    for (i64 j = 0; j < columns; j += kSumSide) {
      float* const to = c + i * c_stride + j;
      with_tiles(rows - i, columns - j, [&]<int kRows, int kColumns>() {
        for_sums<kRows, kColumns>([&](auto tile, i64 r, i64 k) {
          if (!accumulate) return tile.zero();
          tile.load(to + r * c_stride + k, c_stride);
        });
        add_to_sums<kRows, kColumns>(left, b + j, b_stride, round_up(depth, kStepUnit), [] {});
        for_sums<kRows, kColumns>(
            [&](auto tile, i64 r, i64 k) { tile.store(to + r * c_stride + k, c_stride); });
      });
    }
  }
}

#else

// As many sums as fit into registers beside a row of b and a factor; both counts divide blocks.
#if defined(__AVX512F__)
constexpr int kTileRows = 4, kTileVectors = 4;
#else
constexpr int kTileRows = 6, kTileVectors = 2;
#endif

/// c (+)= a · b for kRows rows and kVectors vectors of columns, held in registers throughout.
template <int kRows, int kVectors, bool kTransposed, class Word>
[[gnu::always_inline]] inline void tile(Left<kTransposed, Word> a,
                                        const Word* b,
                                        i64 b_stride,
                                        float* c,
                                        i64 c_stride,
                                        i64 depth,
                                        bool accumulate) {
  F sums[kRows][kVectors] = {};
  for (i64 p = 0; p < depth; ++p) {
    F row[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) row[v] = load_words(b + p * b_stride + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Word factor = a.at(i, p);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[i][v] = multiply_add(sums[i][v], factor, row[v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* to = c + i * c_stride + v * kLanes;
      store(to, accumulate ? load(to) + sums[i][v] : sums[i][v]);
    }
  }
}

template <int kVectors, int kRows, bool kTransposed, class Word>
inline void tiles_of_rows(Left<kTransposed, Word> a,
                          const Word* b,
                          i64 b_stride,
                          float* c,
                          i64 c_stride,
                          i64 rows,
                          i64 depth,
                          bool accumulate) {
  i64 i = 0;
  for (; i + kRows <= rows; i += kRows) {
    const Left<kTransposed, Word> part = {a.data + (kTransposed ? i : i * a.stride), a.stride};
    tile<kRows, kVectors>(part, b, b_stride, c + i * c_stride, c_stride, depth, accumulate);
  }
  if constexpr (kRows > 1) {
    if (i < rows) {
      const Left<kTransposed, Word> part = {a.data + (kTransposed ? i : i * a.stride), a.stride};
      tiles_of_rows<kVectors, kRows - 1>(
          part, b, b_stride, c + i * c_stride, c_stride, rows - i, depth, accumulate);
    }
  }
}

/// c [rows, columns] = or += a [rows, depth] · b [depth, columns], depth in words; columns a
/// multiple of kLanes.
template <bool kTransposed, class Word>
inline void block_product(Left<kTransposed, Word> a,
                          const Word* b,
                          i64 b_stride,
                          float* c,
                          i64 c_stride,
                          i64 rows,
                          i64 columns,
                          i64 depth,
                          bool accumulate) {
  i64 j = 0;
  for (; j + kTileVectors * kLanes <= columns; j += kTileVectors * kLanes) {
    tiles_of_rows<kTileVectors, kTileRows>(
        a, b + j, b_stride, c + j, c_stride, rows, depth, accumulate);
  }
  if constexpr (kTileVectors > 2) {
    for (; j + 2 * kLanes <= columns; j += 2 * kLanes) {
      tiles_of_rows<2, 8>(a, b + j, b_stride, c + j, c_stride, rows, depth, accumulate);
    }
  }
  for (; j < columns; j += kLanes) {
    tiles_of_rows<1, 8>(a, b + j, b_stride, c + j, c_stride, rows, depth, accumulate);
  }
}

#endif

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA
