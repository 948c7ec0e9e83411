#pragma once
#include <cstring>

#include "simd/vector.hpp"

// Tile registers in memory, with the arithmetic of TDPBF16PS (Intel SDM, volume 2): first and
// second elements of pairs are summed apart, each with one rounding to nearest even for a
// multiplication and an addition; both sums are added, and then added to what the register holds.
// Subnormal numbers count as zero, before and after each operation. Exact but for which NaN a
// result is.
namespace tessera::cpu::TESSERA_ISA {
namespace {

constexpr int kTileSide = 16;

/// The registers of a thread. Their use outside a TileScope stops the process, as it does on a
/// processor.
struct EmulatedTiles {
  bool configured;
  alignas(64) u32 words[8][kTileSide][kTileSide];
};
thread_local EmulatedTiles emulated_tiles;

inline u32 (&emulated_tile(int number))[kTileSide][kTileSide] {
  if (!emulated_tiles.configured) __builtin_trap();
  return emulated_tiles.words[number];
}

class TileScope {
 public:
  TileScope() {
    if (emulated_tiles.configured) __builtin_trap();
    emulated_tiles = {};
    emulated_tiles.configured = true;
  }
  ~TileScope() { emulated_tiles.configured = false; }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

/// While one lives the thread rounds to nearest even, takes subnormal numbers for zero and records
/// no exceptions.
class FlushScope {
 public:
  FlushScope() : before_(_mm_getcsr()) { _mm_setcsr(0x9FC0); }
  ~FlushScope() { _mm_setcsr(before_); }
  FlushScope(const FlushScope&) = delete;
  FlushScope& operator=(const FlushScope&) = delete;

 private:
  u32 before_;
};

/// Not inlined, so that nothing of it leaves a FlushScope.
[[gnu::noinline]] inline void emulated_product(u32 (&sums)[kTileSide][kTileSide],
                                               const u32 (&left)[kTileSide][kTileSide],
                                               const u32 (&right)[kTileSide][kTileSide]) {
  const auto first = [](u32 pair) { return __builtin_bit_cast(float, pair << 16); };
  const auto second = [](u32 pair) { return __builtin_bit_cast(float, pair & 0xFFFF0000); };
  for (int row = 0; row < kTileSide; ++row) {
    float firsts[kTileSide] = {}, seconds[kTileSide] = {};
    for (int p = 0; p < kTileSide; ++p) {
      const float a = first(left[row][p]), b = second(left[row][p]);
      for (int j = 0; j < kTileSide; ++j) {
        firsts[j] = __builtin_fmaf(a, first(right[p][j]), firsts[j]);
        seconds[j] = __builtin_fmaf(b, second(right[p][j]), seconds[j]);
      }
    }
    for (int j = 0; j < kTileSide; ++j) {
      const float sum = __builtin_bit_cast(float, sums[row][j]) + (firsts[j] + seconds[j]);
      sums[row][j] = __builtin_bit_cast(u32, sum);
    }
  }
}

template <int kRegister>
inline void tile_zero() {
  std::memset(emulated_tile(kRegister), 0, sizeof emulated_tiles.words[0]);
}
template <int kRegister>
inline void tile_load(const void* rows, i64 stride) {
  for (i64 i = 0; i < kTileSide; ++i) {
    const auto* row = static_cast<const std::byte*>(rows) + i * stride;
    std::memcpy(emulated_tile(kRegister)[i], row, 4 * kTileSide);
  }
}
template <int kRegister>
inline void tile_store(void* rows, i64 stride) {
  for (i64 i = 0; i < kTileSide; ++i) {
    auto* row = static_cast<std::byte*>(rows) + i * stride;
    std::memcpy(row, emulated_tile(kRegister)[i], 4 * kTileSide);
  }
}
template <int kSums, int kLeft, int kRight>
inline void tile_multiply_add() {
  const FlushScope flushing;
  emulated_product(emulated_tile(kSums), emulated_tile(kLeft), emulated_tile(kRight));
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA
