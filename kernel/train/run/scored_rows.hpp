#pragma once
#include <vector>

#include "kernel/train/data/sample_reader.hpp"
#include "tessera/context.hpp"
#include "tessera/device/device.hpp"

namespace tessera {

/// The rows of a microbatch that have a main loss, for heads that make logits of no others: those
/// with slots "scored_rows", "scored_targets" and "scored_mask". Of windows that overlap most rows
/// have none.
class ScoredRows {
 public:
  /// `device` outlives it.
  ScoredRows(const ModelParts& parts, const SampleReader& reader, Device& device);

  /// Fills these slots of a bundle that has its inputs, where some layer here has them.
  void choose(Context& cx, Bundle& bundle) const;
  /// Of such a bundle: the row of each value that the loss leaves. Some may come twice.
  std::vector<i64> of(Bundle& bundle) const;

 private:
  Device& device_;
  i64 count_;
  Slot rows_, targets_, mask_;  // without an index: nobody asks
  Slot all_targets_, all_masks_;
};

}  // namespace tessera
