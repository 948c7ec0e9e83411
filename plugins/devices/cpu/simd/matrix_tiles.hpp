#pragma once
#include "simd/panels.hpp"
#include "simd/tile.hpp"

#if defined(TESSERA_BASE_ISA)
#include "simd/tile_sums.hpp"

// What tiles.hpp defines, on tile registers: 32 × 32 sums. A group of packed rows is made of what
// tiles load, in that order: for each 32 rows and 16 steps, the words of row after row. Words of
// steps beyond the last are zero.
namespace tessera::cpu::TESSERA_ISA {
namespace {

static_assert(kPackedRows == kSumSide && kPanel == kSumSide && kStepUnit == kTileSide);

/// A group of packed rows.
template <class Word>
struct PackedGroup {
  const Word* words;
  LeftRows rows(i64 first, i64, i64 steps) const {
    const Word* row = words + first * round_up(steps, kStepUnit);
    constexpr i64 kBytes = LeftRows::kRowBytes;
    return {reinterpret_cast<const std::byte*>(row), kBytes, kPackedRows, kPackedRows * kBytes};
  }
  void fetch(i64, i64, i64, i64, i64) const {}  // they have just been packed
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
  /// Fetches one of `parts` of `n` rows into the second cache: the processor does not foresee them,
  /// since tiles are loaded across rows.
  void fetch(i64 first, i64 n, i64 steps, i64 part, i64 parts) const {
    constexpr i64 kOfLine = LeftRows::kRowBytes / static_cast<i64>(sizeof(T));
    const i64 lines = (steps + kTileSide - 1) / kTileSide;  // of a row
    const i64 end = n * lines * (part + 1) / parts;
    i64 at = n * lines * part / parts, column = at % lines;
    const T* row = data + (first + at / lines) * stride;
    for (; at < end; ++at) {
      __builtin_prefetch(row + column * kOfLine, 0, 2);
      if (++column == lines) {
        column = 0;
        row += stride;
      }
    }
  }
};

/// Where the word of a row and a step lies in a packed group.
inline i64 packed_at(i64 row, i64 step, i64 steps) {
  return row / kPackedRows * kPackedRows * round_up(steps, kStepUnit) +
         (step / kTileSide * kPackedRows + row % kPackedRows) * kTileSide + step % kTileSide;
}

/// The words of 2 · kLanes rows, kLanes steps from `at` on, as vectors of rows: one vector a step.
/// `lines` rows and `depth` of the inner dimension exist.
template <class T>
[[gnu::always_inline]] inline void words_across(
    const T* at, i64 stride, i64 lines, i64 depth, F (&low)[kLanes], F (&high)[kLanes]) {
  constexpr i64 kAhead = 32;  // depths; rows are streams too short for the processor to foresee
  if (lines >= 2 * kLanes && depth >= 2 * kLanes) {
#pragma GCC unroll 1
    for (i64 i = 0; i < kLanes; ++i, at += 2 * stride) {
      __builtin_prefetch(at + kAhead * stride);
      __builtin_prefetch(at + (kAhead + 1) * stride);
      Packed<T>::across_two(at, at + stride, low[i], high[i]);
    }
    return;
  }
  const i64 left = at_most(lines, kLanes), right = at_most(lines - left, kLanes);
  for (i64 i = 0; i < kLanes; ++i, at += 2 * stride) {
    low[i] = high[i] = F{};
    if (2 * i >= depth) continue;
    const bool pair = 2 * i + 1 < depth;
    low[i] = Packed<T>::across(at, pair ? at + stride : nullptr, left);
    if (right == 0) continue;
    const T* const beyond = at + kLanes;
    high[i] = Packed<T>::across(beyond, pair ? beyond + stride : nullptr, right);
  }
}

/// Packs rows [first, first + n) of a left factor as a group.
template <class T>
inline void pack_group(Factor<T> from, i64 first, i64 n, i64 depth, typename Packed<T>::Word* to) {
  constexpr i64 kDepth = Packed<T>::kDepth;
  const i64 steps = steps_of<T>(depth), padded = packed_steps<T>(depth);
  if (from.depth_stride == 1) {
    for (i64 row = 0; row < n; ++row) {
      const T* line = from.data + (first + row) * from.line_stride;
      for (i64 step = 0; step < padded; step += kLanes) {
        const i64 left = depth - step * kDepth;
        store_words(to + packed_at(row, step, steps),
                    left > 0 ? Packed<T>::along(line + step * kDepth, left) : F{});
      }
    }
    return;
  }
  for (i64 row = 0; row < n; row += 2 * kLanes) {
    for (i64 step = 0; step < padded; step += kLanes) {
      F low[kLanes], high[kLanes];
      const i64 p = step * kDepth;  // of the inner dimension
      const T* at = from.data + p * from.depth_stride + first + row;
      words_across(at, from.depth_stride, n - row, depth - p, low, high);
      transpose(low);
      transpose(high);
      auto* const target = to + packed_at(row, step, steps);
#pragma GCC unroll 16
      for (i64 i = 0; i < kLanes; ++i) {
        store_words(target + i * kTileSide, low[i]);
        store_words(target + (i + kLanes) * kTileSide, high[i]);
      }
    }
  }
}

/// total + the sums of kLanes packed rows from `line` on.
template <class T>
inline F add_row_totals(F total, const typename Packed<T>::Word* group, i64 line, i64 steps) {
  float sums[kLanes];
  for (i64 i = 0; i < kLanes; ++i) {
    F lanes = {};
    for (i64 step = 0; step < round_up(steps, kStepUnit); step += kLanes) {
      lanes = multiply_add(
          lanes, Packed<T>::kOnes, load_words(group + packed_at(line + i, step, steps)));
    }
    sums[i] = sum(lanes);
  }
  return total + load(sums);
}

/// Sums that leave the tile registers for `To`. Those of one tile are put while the next one is
/// computed, the last ones when this goes: vectors and stores would else wait for tiles and tiles
/// for them.
template <class To>
class Results {
 public:
  explicit Results(const To& to) : to_(to) {}
  ~Results() { put(kSumSide); }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  /// Puts up to `rows` of the sums that wait.
  [[gnu::always_inline]] void put(i64 rows) {
    const i64 last = at_most(next_ + rows, height_);
    for (; next_ < last; ++next_) {
      const float* const sums = sums_[which_][next_];
      if (columns_ == kSumSide) {
#pragma GCC unroll 4
        for (i64 c = 0; c < kSumSide; c += kLanes) {
          to_.put(row_ + next_, column_ + c, load(sums + c), Whole{});
        }
        continue;
      }
      for_vectors(columns_, [&](i64 c, auto count) {
        to_.put(row_ + next_, column_ + c, load(sums + c), count);
      });
    }
  }
  /// Where sums go that will wait from now on. Those that have waited must have been put.
  auto& wait(i64 row, i64 column, i64 height, i64 columns) {
    row_ = row;
    column_ = column;
    height_ = height;
    columns_ = columns;
    next_ = 0;
    which_ = 1 - which_;
    return sums_[which_];
  }

 private:
  const To to_;
  i64 row_ = 0, column_ = 0, height_ = 0, columns_ = 0, next_ = 0;
  int which_ = 0;
  alignas(64) float sums_[2][kSumSide][kSumSide];
};

/// The tile whose rows begin at row `i` of a group of `rows`, by the `columns` of one panel. Row 0
/// of the group is row `row` of the results.
template <class Group, class Word, class To>
inline void product_of_rows(const Group& a,
                            i64 i,
                            i64 rows,
                            const Word* b,
                            i64 steps,
                            Results<To>& to,
                            i64 row,
                            i64 column,
                            i64 columns) {
  const i64 height = at_most(rows - i, kSumSide);
  const LeftRows left = a.rows(i, rows - i, steps);
  const i64 at_once = 1 + kSumSide * kTileSide / (steps + 1);
  with_tiles(height, columns, [&]<int kRows, int kColumns>() {
    for_sums<kRows, kColumns>([](auto tile, int, int) { tile.zero(); });
    add_to_sums<kRows, kColumns>(left, b, kPanel, steps, [&] { to.put(at_once); });
    to.put(kSumSide);
    auto& sums = to.wait(row + i, column, height, at_most(columns, kSumSide));
    for_sums<kRows, kColumns>([&](auto tile, int r, int c) { tile.store(&sums[r][c], kSumSide); });
  });
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA
#endif
