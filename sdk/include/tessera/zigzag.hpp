#pragma once
#include "tessera/types.hpp"

/// Which positions of a sample a context-parallel rank holds. A sample is cut into 2c equal chunks,
/// and rank r of c gets chunks r and 2c - 1 - r, in this order: under a causal mask every rank then
/// has the same amount of work ("zigzag"). Slots "tokens", "row_ids", "positions" … and the model's
/// activations hold a sample's positions in this order.
namespace tessera::zigzag {

inline constexpr i64 kHalves = 2;  ///< chunks of one rank

constexpr i64 chunks(i64 ranks) { return kHalves * ranks; }
/// The chunk that is half 0 or 1 of what `rank` holds.
constexpr i64 chunk(i64 ranks, i64 rank, i64 half) {
  return half == 0 ? rank : chunks(ranks) - 1 - rank;
}

}  // namespace tessera::zigzag
