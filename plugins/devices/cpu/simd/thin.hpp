#pragma once
#include "simd/targets.hpp"
#include "tessera/parallel_for.hpp"
#include "thread_work.hpp"

// Products of a few rows, as generation makes them for each token: to pack the right factor would
// take longer than to multiply it. Elements are dot products along lines of both factors.
namespace tessera::cpu::TESSERA_ISA {
namespace {

constexpr i64 kThinRows = 4;

inline bool is_thin(const MatmulArgs& args) {
  return args.out.shape[0] <= kThinRows && !args.transpose_a && args.transpose_b;
}

/// sums[j] = dot product of `row` and line j of `lines`.
template <int kColumns, class T>
[[gnu::always_inline]] inline void dot_products(
    const T* row, const T* lines, i64 stride, i64 depth, float* sums) {
  F totals[kColumns] = {};
  for_vectors(depth, [&](i64 step, auto count) {
    const F left = load(row + step, count);
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) totals[j] += left * load(lines + j * stride + step, count);
  });
#pragma GCC unroll 8
  for (int j = 0; j < kColumns; ++j) sums[j] = sum(totals[j]);
}

template <class T, class Out>
void thin_product(const MatmulArgs& args) {
  constexpr int kChains = 8;  // sums in registers
  const i64 rows = args.out.shape[0], n = args.out.shape[1], depth = args.a.shape[1];
  const i64 stride = args.b.strides[0];
  const Put<Ending::any, T, Out> to = {
      {args.out.as<Out>(), args.out.strides[0], args.bias.as<const T>(), args.accumulate}};
  const auto columns_from = [=](i64 column, i64 columns) {
    const T* lines = args.b.as<const T>() + column * stride;
    for (i64 i = 0; i < rows; ++i) {
      const T* row = args.a.as<const T>() + i * args.a.strides[0];
      float sums[kLanes] = {};
      i64 j = 0;
      for (; j + kChains <= columns; j += kChains) {
        dot_products<kChains>(row, lines + j * stride, stride, depth, sums + j);
      }
      for (; j < columns; ++j) dot_products<1>(row, lines + j * stride, stride, depth, sums + j);
      to.put(i, column, load(sums), columns);
    }
  };
  const i64 grain = 1 + kThreadWork / (rows * depth * kLanes + 1);
  parallel_for((n + kLanes - 1) / kLanes, grain, [=](i64 begin, i64 end) {
    for (i64 column = begin * kLanes; column < at_most(n, end * kLanes); column += kLanes) {
      columns_from(column, at_most(n - column, kLanes));
    }
  });
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA
