#pragma once
#include "simd/storage.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

constexpr int kStripe = 4;          // vectors of columns that are summed side by side
constexpr i64 kRowsOfPartial = 64;  // rows summed by themselves first: keeps rounding small

template <int Sums>
struct Terms {
  F sum[Sums];
};

/// sums[column …] += v, rounded to what the tensor stores.
[[gnu::always_inline]] inline void add_to(const TensorArg& sums, i64 column, F v, i64 count) {
  with_storage(sums.dtype, [&]<class T>(T) {
    T* to = sums.as<T>() + column;
    store(to, load(to, count) + v, count);
  });
}

/// out[j] += sum over rows of terms(row, j), each column summed by one thread in an order of its
/// own, so that the bits do not depend on the threads. `terms(row, j, count)` returns the
/// summands at columns j … j + kLanes - 1, of which `count` (or Whole) exist.
template <int Sums, class TermsOf>
void sum_columns(i64 rows, i64 columns, const TensorArg* const (&out)[Sums], TermsOf terms) {
  const i64 width = kStripe * kLanes;
  const i64 stripes = (columns + width - 1) / width;
  parallel_for(stripes, 1 + 16384 / (rows * width + 1), [&](i64 begin, i64 end) {
    for (i64 stripe = begin; stripe < end; ++stripe) {
      F total[kStripe][Sums] = {};
      const i64 first = stripe * width;
      for (i64 block = 0; block < rows; block += kRowsOfPartial) {
        const i64 last = block + kRowsOfPartial < rows ? block + kRowsOfPartial : rows;
        F partial[kStripe][Sums] = {};
        if (first + width <= columns) {
          for (i64 row = block; row < last; ++row) {
#pragma GCC unroll 8
            for (int v = 0; v < kStripe; ++v) {
              const Terms<Sums> t = terms(row, first + v * kLanes, Whole{});
#pragma GCC unroll 8
              for (int s = 0; s < Sums; ++s) partial[v][s] += t.sum[s];
            }
          }
        } else {
          for (i64 row = block; row < last; ++row) {
            for (int v = 0; v < kStripe; ++v) {
              const i64 column = first + v * kLanes;
              const i64 left = columns - column;
              if (left <= 0) break;
              const Terms<Sums> t = terms(row, column, left < kLanes ? left : kLanes);
              for (int s = 0; s < Sums; ++s) partial[v][s] += t.sum[s];
            }
          }
        }
        for (int v = 0; v < kStripe; ++v) {
          for (int s = 0; s < Sums; ++s) total[v][s] += partial[v][s];
        }
      }
      for (int v = 0; v < kStripe; ++v) {
        const i64 column = first + v * kLanes;
        const i64 left = columns - column;
        if (left <= 0) break;
        const i64 count = left < kLanes ? left : kLanes;
        for (int s = 0; s < Sums; ++s) add_to(*out[s], column, total[v][s], count);
      }
    }
  });
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA
