#pragma once
#include <array>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random
/// Numbers: As Easy as 1, 2, 3", SC 2011, §3.3). The same (key, counter) gives the same four words
/// on every device, layout and thread; nothing is ever incremented.
struct Philox {
  using Words = std::array<u32, 4>;
  static constexpr u32 kM0 = 0xD2511F53, kM1 = 0xCD9E8D57, kW0 = 0x9E3779B9, kW1 = 0xBB67AE85;

  static constexpr Words words(u64 key, Words c) {
    u32 k0 = static_cast<u32>(key), k1 = static_cast<u32>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const u64 p0 = static_cast<u64>(kM0) * c[0], p1 = static_cast<u64>(kM1) * c[2];
      c = {static_cast<u32>(p1 >> 32) ^ c[1] ^ k0,
           static_cast<u32>(p1),
           static_cast<u32>(p0 >> 32) ^ c[3] ^ k1,
           static_cast<u32>(p0)};
      k0 += kW0;
      k1 += kW1;
    }
    return c;
  }
};

/// A row of a batch, named the same under every layout: which sample, which position in it.
/// Stored in i64 tensors ("row_ids"), so that it survives splitting and dispatch.
inline constexpr int kPositionBits = 24;
constexpr i64 row_id(i64 sample_ordinal, i64 position) {
  return (sample_ordinal << kPositionBits) | position;
}
/// The id of rows that fill up a microbatch and belong to no sample.
constexpr i64 padding_row(i64 position) { return row_id(-1, position); }
constexpr bool is_padding(i64 row) { return row < 0; }
constexpr i64 row_sample(i64 row) { return row >> kPositionBits; }
constexpr i64 row_position(i64 row) { return row & ((i64{1} << kPositionBits) - 1); }

/// The random word of one hidden element: counter (feature / 4, position, sample); word feature
/// % 4.
constexpr Philox::Words hidden_counter(i64 row, i64 feature) {
  const u64 sample = static_cast<u64>(row_sample(row));
  return {static_cast<u32>(feature >> 2),
          static_cast<u32>(row_position(row)),
          static_cast<u32>(sample),
          static_cast<u32>(sample >> 32)};
}
/// The random word of one attention score: counter (key / 4, query position, sample, head); word
/// key % 4. `key` and the row's position are global.
constexpr Philox::Words attention_counter(i64 query_row, i64 head, i64 key) {
  const u64 sample = static_cast<u64>(row_sample(query_row));
  return {static_cast<u32>(key >> 2),
          static_cast<u32>(row_position(query_row)),
          static_cast<u32>(sample),
          static_cast<u32>(head) ^ (static_cast<u32>(sample >> 32) << 16)};
}
/// An element is kept when its word is below this; p in [0, 1).
constexpr u64 keep_threshold(double p) { return static_cast<u64>((1.0 - p) * 4294967296.0); }

/// A Philox key from the run's seed and a name ("layers.3.attention" + "/" + "dropout").
TESSERA_API u64 random_key(u64 seed, std::string_view name);
/// Uniform in [0, 1) with 53 bits from words 0 and 1 of counter (index, stream 0).
TESSERA_API double random_uniform(u64 key, u64 index);
/// Standard normal (Box-Muller on 53-bit uniforms), computed in double.
TESSERA_API double random_normal(u64 key, u64 index);

}  // namespace tessera
