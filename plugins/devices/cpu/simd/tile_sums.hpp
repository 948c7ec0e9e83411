#pragma once
#include "simd/tile.hpp"

// Products on tile registers: two by two tiles of sums, registers 0 to 3, from two tiles of each
// factor. Every loaded tile is multiplied twice.
namespace tessera::cpu::TESSERA_ISA {
namespace {

constexpr i64 kSumSide = 2 * kTileSide;  // rows and columns of the sums

/// Rows of a left factor. Only `rows` of them exist; others are zero.
struct LeftRows {
  const std::byte* data;
  i64 stride, rows;         // bytes from row to row
  i64 advance = kRowBytes;  // bytes from one tile of steps to the next
  static constexpr i64 kRowBytes = 4 * kTileSide;
};

/// Calls f with each of kRows × kColumns tiles of sums, its first row and its first column.
template <int kRows, int kColumns, class Body>
[[gnu::always_inline]] inline void for_sums(Body&& f) {
  f(SumTile<0>{}, 0, 0);
  if constexpr (kColumns > 1) f(SumTile<1>{}, 0, kTileSide);
  if constexpr (kRows > 1) f(SumTile<2>{}, kTileSide, 0);
  if constexpr (kRows > 1 && kColumns > 1) f(SumTile<3>{}, kTileSide, kTileSide);
}

/// sums += a · b over `steps` words. The rows of b up to a whole tile of steps must be zero. Calls
/// `meanwhile` behind the instructions of each tile of steps: vectors compute while tiles do.
template <int kRows, int kColumns, class Meanwhile>
[[gnu::always_inline]] inline void add_to_sums(
    const LeftRows& a, const u32* b, i64 b_stride, i64 steps, Meanwhile&& meanwhile) {
  alignas(64) u32 edge[kRows * kTileSide][kTileSide];
  for (i64 step = 0; step < steps; step += kTileSide) {
    const std::byte* left = a.data + step / kTileSide * a.advance;
    i64 stride = a.stride;
    const i64 words = steps - step;
    if (a.rows < kRows * kTileSide || words < kTileSide) {
      __builtin_memset(edge, 0, sizeof edge);
      for (i64 i = 0; i < a.rows && i < kRows * kTileSide; ++i) {
        __builtin_memcpy(edge[i], left + i * stride, 4 * (words < kTileSide ? words : kTileSide));
      }
      left = reinterpret_cast<const std::byte*>(edge);
      stride = 4 * kTileSide;
    }
    const u32* right = b + step * b_stride;
    LeftTile<4>::load(left, stride);
    RightTile<6>::load(right, b_stride);
    multiply_add(SumTile<0>{}, LeftTile<4>{}, RightTile<6>{});
    if constexpr (kColumns > 1) {
      RightTile<7>::load(right + kTileSide, b_stride);
      multiply_add(SumTile<1>{}, LeftTile<4>{}, RightTile<7>{});
    }
    if constexpr (kRows > 1) {
      LeftTile<5>::load(left + kTileSide * stride, stride);
      multiply_add(SumTile<2>{}, LeftTile<5>{}, RightTile<6>{});
      if constexpr (kColumns > 1) multiply_add(SumTile<3>{}, LeftTile<5>{}, RightTile<7>{});
    }
    meanwhile();
  }
}

/// Calls f with the numbers of tiles, as types, that `rows` and `columns` fill.
template <class Body>
[[gnu::always_inline]] inline void with_tiles(i64 rows, i64 columns, Body&& f) {
  const auto with_columns = [&]<int kRows>() {
    if (columns > kTileSide) return f.template operator()<kRows, 2>();
    f.template operator()<kRows, 1>();
  };
  if (rows > kTileSide) return with_columns.template operator()<2>();
  with_columns.template operator()<1>();
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA
