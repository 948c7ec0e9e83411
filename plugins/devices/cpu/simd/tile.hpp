#pragma once
#include "simd/vector.hpp"

// Tile registers: eight of 16 rows of 16 words of 32 bits, and one instruction that adds the
// product of two of them to a third (Intel's AMX). Kernels on tiles are compiled where
// TESSERA_BASE_ISA is defined (table.cpp). Numbers of registers are constants, since instructions
// contain them. Tests have a header in place of tile_amx.hpp that keeps the registers in memory.
#if !defined(TESSERA_BASE_ISA)
namespace tessera::cpu::TESSERA_ISA {
namespace {

/// Kernels that have no tiles prepare nothing.
struct TileScope {
  TileScope() {}
};

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA
#else
#include "simd/tile_amx.hpp"

namespace tessera::cpu::TESSERA_ISA {
namespace {

// TileScope, of the included header: while one lives, the calling thread has the registers. Each
// thread that computes makes one; kernels never nest them.

/// 16 × 16 sums.
template <int kRegister>
struct SumTile {
  static void zero() { tile_zero<kRegister>(); }
  /// `stride` floats from row to row.
  static void load(const float* sums, i64 stride) { tile_load<kRegister>(sums, 4 * stride); }
  static void store(float* sums, i64 stride) { tile_store<kRegister>(sums, 4 * stride); }
};

/// 16 rows of a left factor, 16 pairs of bf16 each.
template <int kRegister>
struct LeftTile {
  /// `stride` bytes from row to row: rows may lie in a matrix of odd width.
  static void load(const void* rows, i64 stride) { tile_load<kRegister>(rows, stride); }
};

/// 16 columns of a right factor: row p holds pair p of each column, which is the order of packed
/// words (words.hpp).
template <int kRegister>
struct RightTile {
  /// `stride` words from row to row.
  static void load(const u32* words, i64 stride) { tile_load<kRegister>(words, 4 * stride); }
};

/// sums += left · right.
template <int kSums, int kLeft, int kRight>
[[gnu::always_inline]] inline void multiply_add(SumTile<kSums>,
                                                LeftTile<kLeft>,
                                                RightTile<kRight>) {
  tile_multiply_add<kSums, kLeft, kRight>();
}

}  // namespace
}  // namespace tessera::cpu::TESSERA_ISA
#endif
