#pragma once
// Choices in the order of their experts.
#include <algorithm>

#include "gpu.hpp"
#include "tessera/ops/moe.hpp"
#include "tessera/random.hpp"

namespace tessera::cuda {

/// Tiles of the choices of each sequence; one sequence where none are told apart. Each choice has a
/// key: its expert, or `all` for one that has none.
struct ChoiceTiles {
  static constexpr i64 kTile = 512;  // choices of a warp

  const i32* experts;
  const i64* row_ids;  // optional: choices of rows of padding have no expert
  i64 rows, k, all;
  SequenceRows sequence;
  i64 keys, tiles;  // tiles of a sequence
  int key_bits;     // of a key, and of `keys`

  ChoiceTiles(const TensorArg& choices,
              i64 all,
              const SequenceRows& sequence = {},
              const i64* row_ids = nullptr)
      : experts(choices.as<const i32>()),
        row_ids(row_ids),
        rows(choices.shape[0]),
        k(choices.shape[1]),
        all(all),
        sequence(sequence),
        keys(all + 1),
        tiles(blocks_for(rows_of_sequence() * k, kTile)),
        key_bits(bits_of(keys)) {}

  static constexpr int bits_of(i64 key) {
    int bits = 0;
    while (key >> bits != 0) ++bits;
    return bits;
  }
  i64 rows_of_sequence() const {
    return sequence.positions == 0 ? rows : std::min(rows, sequence.positions);
  }
  i64 entries() const { return sequence.sequences * keys * tiles; }

  /// The choices of a tile of a sequence.
  __device__ void range(i64 of_sequence, i64 tile, i64& begin, i64& end) const {
    i64 first = 0, last = rows;
    if (sequence.positions != 0) {
      first = std::max<i64>(of_sequence * sequence.positions - sequence.first, 0);
      last = std::min((of_sequence + 1) * sequence.positions - sequence.first, rows);
    }
    begin = first * k + tile * kTile;
    end = std::min(begin + kTile, last * k);
  }
  __device__ i64 key(i64 choice) const {
    const i32 expert = experts[choice];
    if (row_ids != nullptr && is_padding(row_ids[choice / k])) return all;
    return expert >= 0 && expert < all ? expert : all;
  }
};

/// Elements of the workspace of sort_choices().
inline i64 sort_entries(const ChoiceTiles& of) { return of.entries() + of.keys; }

/// order and inverse as sort_by_expert has them; firsts [keys], optional: where each key begins in
/// `order`.
void sort_choices(const ChoiceTiles& of,
                  i32* workspace,
                  i32* order,
                  i32* inverse,
                  i32* firsts,
                  cudaStream_t stream);

}  // namespace tessera::cuda
