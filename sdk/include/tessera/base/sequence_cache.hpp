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

/// What layers keep of a sequence's earlier rows while it grows (keys and values): generation runs
/// only the rows that are new. It belongs to one sequence on one rank; its rank's thread uses it.
class TESSERA_API SequenceCache {
 public:
  /// Makes a cache for sequences of up to `capacity` rows.
  SequenceCache(int slots, i64 capacity);
  i64 capacity() const { return capacity_; }
  /// Rows that earlier runs went through: the position of this run's first row.
  i64 length() const { return length_; }
  /// Keeps this run's rows [n, features] of one slot; returns that slot's rows from the first on,
  /// [length() + n, features]. Memory for `capacity` rows is taken by the first call. Throws Error
  /// when they do not fit.
  Tensor extend(Context& cx, CacheSlot slot, const Tensor& rows);
  /// Call after a run over n rows: they count as kept.
  void advance(i64 n) { length_ += n; }
  /// Forgets all rows; the memory stays.
  void restart() { length_ = 0; }

 private:
  i64 capacity_, length_ = 0;
  std::vector<Tensor> kept_;  // by slot
};

}  // namespace tessera
