#include "tessera/base/sequence_cache.hpp"

#include "tessera/ops.hpp"

namespace tessera {

SequenceCache::SequenceCache(int slots, i64 capacity)
    : capacity_(capacity), kept_(static_cast<std::size_t>(slots)) {}

Tensor SequenceCache::extend(Context& cx, CacheSlot slot, const Tensor& rows) {
  const i64 n = rows.dim(0);
  require(length_ + n <= capacity_,
          "{} rows after {} do not fit into a cache of {}",
          n,
          length_,
          capacity_);
  Tensor& kept = kept_.at(static_cast<std::size_t>(slot.index));
  if (!kept.defined()) kept = cx.empty({capacity_, rows.dim(1)}, rows.dtype());
  ops::run(cx, CopyArgs{rows.arg(), kept.slice(0, length_, n).arg()});
  return kept.slice(0, 0, length_ + n);
}

}  // namespace tessera
