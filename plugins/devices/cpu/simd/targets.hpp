#pragma once
#include "simd/tiles.hpp"

// Where the sums of a product's tiles go.
namespace tessera::cpu::TESSERA_ISA {
namespace {

/// Where a product goes. All but the last part of the inner dimension go to `partial`, [m, n], if
/// there is one.
template <class T, class Out>
struct Target {
  Out* out;
  i64 stride;
  const T* bias;
  bool accumulate;
  float* partial = nullptr;
  i64 width = 0;
  bool first = true, last = true;
};

/// What happens to sums, known where the code of a tile is made.
enum class Ending : u8 { write, add_bias, accumulate, any };

template <Ending kEnding, class T, class Out>
struct Put {
  Target<T, Out> to;
  /// The same for the few columns beyond the last whole tile, which are not worth code of their
  /// own for each ending.
  Put<Ending::any, T, Out> of_any_ending() const { return {to}; }
  /// Fetches what a tile will be added to, while it is computed.
  template <int kVectors>
  [[gnu::always_inline]] void prefetch(i64 row, i64 column) const {
    if constexpr (kEnding == Ending::accumulate) {
#pragma GCC unroll 8
      for (int i = 0; i < kPackedRows; ++i) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          __builtin_prefetch(to.out + (row + i) * to.stride + column + v * kLanes, 1);
        }
      }
    }
  }
  template <class Count>
  [[gnu::always_inline]] void put(i64 row, i64 column, F sum, Count count) const {
    if constexpr (kEnding == Ending::any) {
      if (to.partial != nullptr) {
        float* sums = to.partial + row * to.width + column;
        if (!to.first) sum += load(sums, count);
        if (!to.last) return store(sums, sum, count);
      }
    }
    Out* out = to.out + row * to.stride + column;
    if (kEnding == Ending::accumulate || (kEnding == Ending::any && to.accumulate)) {
      sum += load(out, count);
    }
    if (kEnding == Ending::add_bias || (kEnding == Ending::any && to.bias != nullptr)) {
      sum += load(to.bias + column, count);
    }
    store(out, sum, count);
  }
};

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA
