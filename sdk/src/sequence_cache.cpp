#include "tessera/base/sequence_cache.hpp"

#include <algorithm>

#include "tessera/device/device.hpp"
#include "tessera/ops.hpp"

namespace tessera {

SequenceCache::SequenceCache(int slots, i64 sequences, i64 capacity)
    : capacity_(capacity),
      lengths_(static_cast<std::size_t>(sequences), 0),
      kept_(static_cast<std::size_t>(slots)) {}

void SequenceCache::begin(Context& cx, const Run& run) {
  require(run.first >= 0 && run.sequences > 0 && run.first + run.sequences <= sequences(),
          "a run over sequences {} to {} of a cache of {}",
          run.first,
          run.first + run.sequences - 1,
          sequences());
  require(run.rows > 0 && (run.sequences == 1 || run.rows == 1),
          "a run brings {} rows of each of {} sequences: several bring one each",
          run.rows,
          run.sequences);
  std::vector<i32> positions;
  for (i64 sequence = run.first; sequence < run.first + run.sequences; ++sequence) {
    require(length(sequence) + run.rows <= capacity_,
            "{} rows after {} do not fit into a cache of {}",
            run.rows,
            length(sequence),
            capacity_);
    for (i64 row = 0; row < run.rows; ++row) {
      positions.push_back(static_cast<i32>(length(sequence) + row));
    }
  }
  run_ = run;
  positions_ = cx.empty({static_cast<i64>(positions.size())}, DType::i32);
  cx.device->write(positions_, positions.data());
}

Tensor SequenceCache::rows_of(const Tensor& kept, i64 sequence, i64 rows) const {
  return kept.slice(0, sequence * capacity_, rows);
}

Tensor SequenceCache::extend(Context& cx, CacheSlot slot, const Tensor& rows) {
  const i64 features = rows.dim(1);
  Tensor& kept = kept_.at(static_cast<std::size_t>(slot.index));
  if (!kept.defined()) {
    kept = cx.empty({sequences() * capacity_, features}, rows.dtype());
    ops::run(cx, FillArgs{kept.arg(), 0});  // layers compute with what is after a shorter sequence
  }
  i64 longest = 0;
  for (i64 i = 0; i < run_.sequences; ++i) {
    const i64 sequence = run_.first + i, before = length(sequence);
    const Tensor place = rows_of(kept, sequence, before + run_.rows).slice(0, before, run_.rows);
    ops::run(cx, CopyArgs{rows.slice(0, i * run_.rows, run_.rows).arg(), place.arg()});
    longest = std::max(longest, before + run_.rows);
  }
  return kept.view({sequences(), capacity_, features})
      .slice(0, run_.first, run_.sequences)
      .slice(1, 0, longest);
}

void SequenceCache::advance() {
  for (i64 i = 0; i < run_.sequences; ++i) {
    lengths_[static_cast<std::size_t>(run_.first + i)] += run_.rows;
  }
}

void SequenceCache::move(Context& cx, i64 from, i64 to) {
  const i64 rows = length(from);
  for (const Tensor& kept : kept_) {
    if (!kept.defined() || rows == 0) continue;
    ops::run(cx, CopyArgs{rows_of(kept, from, rows).arg(), rows_of(kept, to, rows).arg()});
  }
  lengths_.at(static_cast<std::size_t>(to)) = rows;
}

}  // namespace tessera
