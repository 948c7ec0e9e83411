#include "simd/kernels_of_isa.hpp"
#include "simd/rows.hpp"
#include "simd/shuffle.hpp"
#include "tessera/parallel_for.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

struct Pair {
  F a, b;
};

/// A sine of the other sign turns back.
[[gnu::always_inline]] inline Pair turned(Pair x, F cosine, F sine) {
  return {x.a * cosine - x.b * sine, x.b * cosine + x.a * sine};
}

/// Halves of what turns: feature j with j + pairs.
template <class T>
void turn_halves(const T* from, T* to, const float* cosines, const float* sines, F sign, i64 n) {
  for_vectors(n, [=](i64 j, auto count) {
    const Pair y = turned({load(from + j, count), load(from + n + j, count)},
                          load(cosines + j, count),
                          load(sines + j, count) * sign);
    store(to + j, y.a, count);
    store(to + n + j, y.b, count);
  });
}

/// Neighbours: feature 2j with 2j + 1.
template <class T>
void turn_neighbours(
    const T* from, T* to, const float* cosines, const float* sines, F sign, i64 n) {
  i64 j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    const F low = load(from + 2 * j), high = load(from + 2 * j + kLanes);
    const Pair y = turned(
        {unzip_even(low, high), unzip_odd(low, high)}, load(cosines + j), load(sines + j) * sign);
    store(to + 2 * j, zip_low(y.a, y.b));
    store(to + 2 * j + kLanes, zip_high(y.a, y.b));
  }
  for (; j < n; ++j) {
    const Pair y =
        turned({broadcast(load_one(from + 2 * j)), broadcast(load_one(from + 2 * j + 1))},
               broadcast(cosines[j]),
               broadcast(sines[j]) * sign);
    store_one(to + 2 * j, y.a[0]);
    store_one(to + 2 * j + 1, y.b[0]);
  }
}

template <class T>
void turn(const RotaryArgs& args) {
  const i64 heads = args.x.shape[1], features = args.x.shape[2];
  const i64 table_rows = args.table.shape[0], pairs = args.table.shape[2];
  const i64* positions = args.positions.as<const i64>();
  const F sign = broadcast(args.inverse ? -1.0F : 1.0F);
  const auto from = args.x.as<const T>();
  const auto to = args.out.as<T>();
  const i64 row_from = args.x.strides[0], head_from = args.x.strides[1];
  const i64 row_to = args.out.strides[0], head_to = args.out.strides[1];
  const auto* table = args.table.as<const float>();
  const bool interleaved = args.interleaved;
  parallel_for(args.x.shape[0], row_grain(heads * features), [=](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const i64 position = positions[row];
      const bool known = position >= 0 && position < table_rows;
      const float* cosines = table + (known ? 2 * position * pairs : 0);
      const F its_sign = known ? sign : broadcast(__builtin_nanf(""));
      for (i64 h = 0; h < heads; ++h) {
        const T* x = from + row * row_from + h * head_from;
        T* y = to + row * row_to + h * head_to;
        if (interleaved) {
          turn_neighbours(x, y, cosines, cosines + pairs, its_sign, pairs);
        } else {
          turn_halves(x, y, cosines, cosines + pairs, its_sign, pairs);
        }
        if (x == y) continue;
        for_vectors(features - 2 * pairs, [=](i64 j, auto count) {
          store(y + 2 * pairs + j, load(x + 2 * pairs + j, count), count);
        });
      }
    }
  });
}

}  // namespace

template <>
void run(const RotaryArgs& args) {
  with_storage(args.x.dtype, [&]<class T>(T) { turn<T>(args); });
}

}  // namespace tessera::cpu::TESSERA_ISA
