#pragma once
#include <vector>

#include "kernel/train/data/sample_reader.hpp"
#include "tessera/context.hpp"
#include "tessera/device/device.hpp"

namespace tessera {

/// The rows of a microbatch that have a main loss, for heads that make logits of no others: those
/// with a slot "scored_rows". Of windows that overlap most rows have none.
class ScoredRows {
 public:
  /// `device` outlives it.
  ScoredRows(const ModelParts& parts, const SampleReader& reader, Device& device);

  /// Fills this slot of a bundle that has its inputs, where some layer here has it.
  void choose(Context& cx, Bundle& bundle) const;
  /// Of such a bundle: the row of each value that the loss leaves; -1: of none.
  std::vector<i32> of(Bundle& bundle) const;

 private:
  Device& device_;
  i64 count_;
  Slot rows_;  // without an index: nobody asks
  Slot mask_;
};

}  // namespace tessera
