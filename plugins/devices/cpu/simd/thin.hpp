#pragma once
#include "few_rows.hpp"
#include "simd/targets.hpp"
#include "tessera/parallel_for.hpp"
#include "thread_work.hpp"

// Products of a few rows: each element is a dot product along lines of both factors, which is
// summed in one order whatever is computed with it. So a row's bits do not depend on other rows.
namespace tessera::cpu::TESSERA_ISA {
namespace {

constexpr int kRowsTogether = kLanes == 16 ? 4 : 2;  // whose sums fit registers

/// sums[i][first + j] = dot product of line i of `rows` and line first + j of `lines`. Fetches as
/// many lines that follow, in the order of memory where they lie densely: the processor's own
/// prefetcher is slower with several lines at once.
template <int kRows, int kColumns, class T>
[[gnu::always_inline]] inline void dot_products(const T* rows,
                                                i64 row_stride,
                                                const T* lines,
                                                i64 stride,
                                                i64 depth,
                                                i64 first,
                                                float (*sums)[kLanes]) {
  F totals[kRows][kColumns] = {};
  lines += first * stride;
  const T* next = lines + kColumns * stride;
  for_vectors(depth, [&](i64 step, auto count) {
    F right[kColumns];
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) {
      __builtin_prefetch(next + step * kColumns + j * kLanes);
      right[j] = load(lines + j * stride + step, count);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const F left = load(rows + i * row_stride + step, count);
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) totals[i][j] += left * right[j];
    }
  });
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) sums[i][first + j] = sum(totals[i][j]);
  }
}

/// kRows rows of up to kLanes columns.
template <int kRows, class T, class Put>
void thin_rows(const MatmulArgs& args, const Put& to, i64 row, i64 column, i64 columns) {
  constexpr int kChains = 4;  // lines at once
  const i64 depth = args.a.shape[1], row_stride = args.a.strides[0], stride = args.b.strides[0];
  const T* rows = args.a.as<const T>() + row * row_stride;
  const T* lines = args.b.as<const T>() + column * stride;
  float sums[kRows][kLanes] = {};
  i64 j = 0;
  for (; j + kChains <= columns; j += kChains) {
    dot_products<kRows, kChains>(rows, row_stride, lines, stride, depth, j, sums);
  }
  for (; j < columns; ++j) {
    dot_products<kRows, 1>(rows, row_stride, lines, stride, depth, j, sums);
  }
  for (int i = 0; i < kRows; ++i) to.put(row + i, column, load(sums[i]), columns);
}

template <class T, class Out>
void thin_product(const MatmulArgs& args) {
  const i64 rows = args.out.shape[0], n = args.out.shape[1], depth = args.a.shape[1];
  const Put<Ending::any, T, Out> to = {
      {args.out.as<Out>(), args.out.strides[0], args.bias.as<const T>(), args.accumulate}};
  const i64 grain = 1 + kThreadWork / (rows * depth * kLanes + 1);
  parallel_for((n + kLanes - 1) / kLanes, grain, [=](i64 begin, i64 end) {
    for (i64 column = begin * kLanes; column < at_most(n, end * kLanes); column += kLanes) {
      const i64 columns = at_most(n - column, kLanes);
      i64 i = 0;
      for (; i + kRowsTogether <= rows; i += kRowsTogether) {
        thin_rows<kRowsTogether, T>(args, to, i, column, columns);
      }
      for (; i < rows; ++i) thin_rows<1, T>(args, to, i, column, columns);
    }
  });
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA
