#pragma once
#include "simd/panels.hpp"
#include "simd/tile.hpp"

#if defined(TESSERA_BASE_ISA)
#include "simd/tile_sums.hpp"

// What tiles.hpp defines, on tile registers: 32 × 32 sums. Packed rows lie as in a matrix, each
// with its words of the inner dimension, zero up to whole tiles.
namespace tessera::cpu::TESSERA_ISA {
namespace {

static_assert(kPackedRows == kSumSide && kPanel == kSumSide && kStepUnit == kTileSide);

/// A group of packed rows.
template <class Word>
struct PackedGroup {
  const Word* words;
  LeftRows rows(i64 first, i64, i64 steps) const {
    const i64 stride = round_up(steps, kStepUnit);
    const Word* row = words + first * stride;
    return {reinterpret_cast<const std::byte*>(row), 4 * stride, kPackedRows};
  }
};

/// A group of rows whose elements are words as they lie.
template <class T>
struct OwnGroup {
  const T* data;
  i64 stride;
  LeftRows rows(i64 first, i64 left, i64) const {
    const T* row = data + first * stride;
    return {reinterpret_cast<const std::byte*>(row), stride * static_cast<i64>(sizeof(T)), left};
  }
};

/// Packs rows [first, first + n) of a left factor as a group.
template <class T>
inline void pack_group(Factor<T> from, i64 first, i64 n, i64 depth, typename Packed<T>::Word* to) {
  constexpr i64 kDepth = Packed<T>::kDepth;
  const i64 stride = packed_steps<T>(depth);
  if (from.depth_stride == 1) {
    for (i64 row = 0; row < n; ++row) {
      const T* line = from.data + (first + row) * from.line_stride;
      for (i64 step = 0; step < stride; step += kLanes) {
        const i64 left = depth - step * kDepth;
        store_words(to + row * stride + step,
                    left > 0 ? Packed<T>::along(line + step * kDepth, left) : F{});
      }
    }
    return;
  }
  for (i64 row = 0; row < n; row += kLanes) {
    const i64 lines = at_most(n - row, kLanes);
    for (i64 step = 0; step < stride; step += kLanes) {
      F words[kLanes];
      for (i64 i = 0; i < kLanes; ++i) {
        const i64 p = (step + i) * kDepth;  // of the inner dimension
        const T* at = from.data + p * from.depth_stride + first + row;
        const T* next = p + 1 < depth ? at + from.depth_stride : nullptr;
        if (p >= depth) {
          words[i] = F{};
        } else if (lines == kLanes) {
          words[i] = Packed<T>::across(at, next, Whole{});
        } else {
          words[i] = Packed<T>::across(at, next, lines);
        }
      }
      transpose(words);
      for (i64 i = 0; i < kLanes; ++i) store_words(to + (row + i) * stride + step, words[i]);
    }
  }
}

/// total + the sums of kLanes packed rows from `line` on.
template <class T>
inline F add_row_totals(F total, const typename Packed<T>::Word* group, i64 line, i64 steps) {
  const i64 stride = round_up(steps, kStepUnit);
  float sums[kLanes];
  for (i64 i = 0; i < kLanes; ++i) {
    const auto* row = group + (line + i) * stride;
    F lanes = {};
    for (i64 step = 0; step < stride; step += kLanes) {
      lanes = multiply_add(lanes, Packed<T>::kOnes, load_words(row + step));
    }
    sums[i] = sum(lanes);
  }
  return total + load(sums);
}

/// The tile whose rows begin at row `i` of a group of `rows`, by the `columns` of one panel. Row 0
/// of the group is row `row` of `to`.
template <class Group, class Word, class To>
inline void product_of_rows(const Group& a,
                            i64 i,
                            i64 rows,
                            const Word* b,
                            i64 steps,
                            const To& to,
                            i64 row,
                            i64 column,
                            i64 columns) {
  alignas(64) float sums[kSumSide][kSumSide];
  const i64 height = at_most(rows - i, kSumSide);
  const LeftRows left = a.rows(i, rows - i, steps);
  with_tiles(height, columns, [&]<int kRows, int kColumns>() {
    for_sums<kRows, kColumns>([](auto tile, int, int) { tile.zero(); });
    add_to_sums<kRows, kColumns>(left, b, kPanel, steps);
    for_sums<kRows, kColumns>([&](auto tile, int r, int c) { tile.store(&sums[r][c], kSumSide); });
  });
  for (i64 r = 0; r < height; ++r) {
    for_vectors(at_most(columns, kSumSide), [&](i64 c, auto count) {
      to.put(row + i + r, column + c, load(sums[r] + c), count);
    });
  }
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA
#endif
