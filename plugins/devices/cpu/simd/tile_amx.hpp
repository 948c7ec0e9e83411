#pragma once
#include "simd/vector.hpp"

// Tile registers by the instructions of AMX. g++'s intrinsics take no template parameter for a
// register and do not say that loads read memory, so these are written out.
namespace tessera::cpu::TESSERA_ISA {
namespace {

constexpr int kTileSide = 16;

class TileScope {
 public:
  TileScope() {
    Configuration all;
    for (int i = 0; i < 8; ++i) {
      all.row_bytes[i] = 4 * kTileSide;
      all.rows[i] = kTileSide;
    }
    asm volatile("ldtilecfg %0" ::"m"(all));
  }
  ~TileScope() { asm volatile("tilerelease" ::: "memory"); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  /// What LDTILECFG reads.
  struct alignas(64) Configuration {
    u8 palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    u8 rows[16] = {};
  };
};

template <int kRegister>
[[gnu::always_inline]] inline void tile_zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kRegister));
}
template <int kRegister>
[[gnu::always_inline]] inline void tile_load(const void* rows, i64 stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(rows), "r"(stride), "i"(kRegister) : "memory");
}
template <int kRegister>
[[gnu::always_inline]] inline void tile_store(void* rows, i64 stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(rows), "r"(stride), "i"(kRegister)
               : "memory");
}
template <int kSums, int kLeft, int kRight>
[[gnu::always_inline]] inline void tile_multiply_add() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kLeft), "i"(kRight));
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA
