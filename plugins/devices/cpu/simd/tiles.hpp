#pragma once
#include <cstddef>

#include "simd/matrix_tiles.hpp"
#include "simd/panels.hpp"

// Tiles of a product: sums that registers hold, over rows of the left factor and slabs of columns
// of the packed right one. With tile registers they are matrix_tiles.hpp's.
namespace tessera::cpu::TESSERA_ISA {
namespace {

#if !defined(TESSERA_BASE_ISA)
/// The rows of a tile in a packed slab.
template <class Word>
struct SlabRows {
  const Word* words;
  [[gnu::always_inline]] Word at(int row, i64 step) const { return words[step * kLanes + row]; }
  [[gnu::always_inline]] void prefetch_next(i64) const {}
};

/// A group of packed rows.
template <class Word>
struct PackedGroup {
  const Word* words;
  SlabRows<Word> rows(i64 first, i64, i64 steps) const {
    return {words + first / kLanes * kLanes * steps + first % kLanes};
  }
};

/// Packs rows [first, first + n) of a left factor as a group.
template <class T>
inline void pack_group(Factor<T> from, i64 first, i64 n, i64 depth, typename Packed<T>::Word* to) {
  const i64 steps = steps_of<T>(depth);
  pack_slabs(
      from, first, n, depth, [=](i64 slab) { return to + slab * kLanes * steps; }, kLanes);
}

/// total + the sums of kLanes packed rows from `line` on, of kSumSteps steps at a time, which keeps
/// rounding small.
template <class T>
inline F add_row_totals(F total, const typename Packed<T>::Word* group, i64 line, i64 steps) {
  constexpr i64 kSumSteps = 64;
  constexpr int kChains = 4;
  const auto* words = group + line * steps;
  for (i64 block = 0; block < steps; block += kSumSteps) {
    const i64 last = at_most(block + kSumSteps, steps);
    F chains[kChains] = {};
    i64 step = block;
    for (; step + kChains <= last; step += kChains) {
#pragma GCC unroll 4
      for (int c = 0; c < kChains; ++c) {
        const F lanes = load_words(words + (step + c) * kLanes);
        chains[c] = multiply_add(chains[c], Packed<T>::kOnes, lanes);
      }
    }
    for (; step < last; ++step) {
      chains[0] = multiply_add(chains[0], Packed<T>::kOnes, load_words(words + step * kLanes));
    }
    total += (chains[0] + chains[1]) + (chains[2] + chains[3]);
  }
  return total;
}

/// The rows of a tile where they lie in the matrix.
template <class Word>
struct OwnRows {
  const std::byte* row[kPackedRows];
  i64 next;  // bytes to the tile below
  [[gnu::always_inline]] Word at(int i, i64 step) const {
    Word word;
    __builtin_memcpy(&word, row[i] + step * static_cast<i64>(sizeof word), sizeof word);
    return word;
  }
  /// The rows are streams too short for the processor to foresee the next ones.
  [[gnu::always_inline]] void prefetch_next(i64 step) const {
#pragma GCC unroll 8
    for (int i = 0; i < kPackedRows; ++i) {
      __builtin_prefetch(row[i] + next + step * static_cast<i64>(sizeof(Word)));
    }
  }
};

/// A group of rows whose elements are words as they lie. The last one stands for those beyond it.
template <class T>
struct OwnGroup {
  const T* data;
  i64 stride;
  OwnRows<typename Packed<T>::Word> rows(i64 first, i64 left, i64) const {
    OwnRows<typename Packed<T>::Word> made;
    made.next = kPackedRows * stride * static_cast<i64>(sizeof(T));
    for (int i = 0; i < kPackedRows; ++i) {
      const i64 row = first + (i < left ? i : left - 1);
      made.row[i] = reinterpret_cast<const std::byte*>(data + row * stride);
    }
    return made;
  }
};

/// sums = a · b over all steps, for kPackedRows rows and kVectors slabs of columns.
template <int kVectors, class Rows, class Word>
[[gnu::always_inline]] inline void sum_tile(const Rows& a,
                                            const Word* b,
                                            i64 steps,
                                            F (&sums)[kPackedRows][kVectors]) {
  constexpr i64 kChunk = 64 / sizeof(Word);  // words of a cache line
#pragma GCC unroll 8
  for (int i = 0; i < kPackedRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[i][v] = F{};
  }
  for (i64 chunk = 0; chunk < steps; chunk += kChunk) {
    a.prefetch_next(chunk);
    const i64 last = at_most(chunk + kChunk, steps);
    for (i64 step = chunk; step < last; ++step) {
      F row[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        row[v] = load_words(b + (step * kPackedVectors + v) * kLanes);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kPackedRows; ++i) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          sums[i][v] = multiply_add(sums[i][v], a.at(i, step), row[v]);
        }
      }
    }
  }
}

/// One tile: `rows` of it by `columns` of a panel, put to `to`.
template <int kVectors, class Rows, class Word, class To>
inline void product_tile(const Rows& a,
                         const Word* b,
                         i64 steps,
                         const To& to,
                         i64 row,
                         i64 rows,
                         i64 column,
                         i64 columns) {
  F sums[kPackedRows][kVectors];
  to.template prefetch<kVectors>(row, column);
  sum_tile<kVectors>(a, b, steps, sums);
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
  // Variables index a copy: else the sums would not stay in registers.
  float edge[kPackedRows][kVectors * kLanes];
#pragma GCC unroll 8
  for (int i = 0; i < kPackedRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store(edge[i] + v * kLanes, sums[i][v]);
  }
  for (i64 i = 0; i < at_most(rows, kPackedRows); ++i) {
    for_vectors(at_most(columns, kVectors * kLanes),
                [&](i64 j, auto count) { to.put(row + i, column + j, load(edge[i] + j), count); });
  }
}

/// Where sums go. On tile registers they may wait here.
template <class To>
struct Results {
  explicit Results(const To& target) : to(target) {}
  const To to;
};

/// The tile whose rows begin at row `i` of a group of `rows`, by the `columns` of one panel. Row 0
/// of the group is row `row` of the results.
template <class Group, class Word, class To>
inline void product_of_rows(const Group& a,
                            i64 i,
                            i64 rows,
                            const Word* b,
                            i64 steps,
                            Results<To>& results,
                            i64 row,
                            i64 column,
                            i64 columns) {
  const i64 left = rows - i;
  const auto tile = a.rows(i, left, steps);
  const To& to = results.to;
  if (columns > (kPackedVectors - 1) * kLanes) {
    product_tile<kPackedVectors>(tile, b, steps, to, row + i, left, column, columns);
    return;
  }
  const auto edge = to.of_any_ending();
  if constexpr (kPackedVectors > 2) {
    if (columns > kLanes) {
      return product_tile<2>(tile, b, steps, edge, row + i, left, column, columns);
    }
  }
  product_tile<1>(tile, b, steps, edge, row + i, left, column, columns);
}

#endif

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA
