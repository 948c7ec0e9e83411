#pragma once
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/tensor.hpp"
#include "tessera/types.hpp"

namespace tessera {

struct Context;

/// A place in the cache, one for each component that keeps rows; made by BuildContext::cache_slot.
struct CacheSlot {
  int index = -1;
};

/// What layers keep of the earlier rows of sequences that grow (keys and values): generation runs
/// only the rows that are new. It belongs to one rank, whose thread uses it.
class TESSERA_API SequenceCache {
 public:
  /// The rows of one run, [sequences · rows]: those of each sequence follow each other. Several
  /// sequences bring one row each.
  struct Run {
    i64 first = 0, sequences = 1, rows = 1;
  };

  /// Makes a cache for `sequences` sequences of up to `capacity` rows.
  SequenceCache(int slots, i64 sequences, i64 capacity);
  i64 sequences() const { return static_cast<i64>(lengths_.size()); }
  i64 capacity() const { return capacity_; }
  /// Rows of a sequence that earlier runs went through: the position of its next row.
  i64 length(i64 sequence) const { return lengths_.at(static_cast<std::size_t>(sequence)); }

  /// Call before a run. Throws Error when its rows do not fit.
  void begin(Context& cx, const Run& run);
  const Run& run() const { return run_; }
  /// i32 [sequences · rows]: where the rows of this run are in their sequences, on the device.
  const Tensor& positions() const { return positions_; }
  /// Keeps this run's rows [sequences · rows, features] of one slot. Returns, for each of its
  /// sequences, that slot's rows from the first on, [sequences, longest, features] with unit inner
  /// stride; after the rows of a shorter sequence lie zeros or rows that were forgotten. The first
  /// call takes the memory of all sequences.
  Tensor extend(Context& cx, CacheSlot slot, const Tensor& rows);
  /// Call after a run: its rows count as kept.
  void advance();
  /// Forgets a sequence's rows; the memory stays.
  void restart(i64 sequence) { lengths_.at(static_cast<std::size_t>(sequence)) = 0; }
  /// Puts one sequence in the place of another.
  void move(Context& cx, i64 from, i64 to);

 private:
  Tensor rows_of(const Tensor& kept, i64 sequence, i64 rows) const;

  i64 capacity_;
  Run run_;
  Tensor positions_;
  std::vector<i64> lengths_;  // by sequence
  std::vector<Tensor> kept_;  // by slot: [sequences · capacity, features]
};

}  // namespace tessera
