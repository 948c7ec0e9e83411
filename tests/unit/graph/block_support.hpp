#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernel/graph/graph_slots.hpp"
#include "tessera/testing/local_world.hpp"

namespace tessera::testing {

/// The plugins of the build tree.
const LocalWorld& block_world();

/// Two samples of eight positions, tensor parallel over `ranks`.
LocalWorldOptions block_options(const std::string& device, i64 ranks = 1, u64 deferred_seed = 0);

/// A chunk of two transformer blocks, of two phases each, on one rank.
class TwoBlocks {
 public:
  /// `recompute`: each block is one phase, which keeps its input and runs again backward.
  explicit TwoBlocks(LocalRank& rank, bool recompute = false);

  const std::vector<Phase>& phases() const { return phases_; }
  Slot hidden() const { return hidden_; }
  /// On a tape of the chunk's own.
  Context context() const { return cx_; }
  Tape& tape() { return tape_; }

  Tensor input(int microbatch) const;
  Tensor gradient(int microbatch) const;
  /// Without the hidden states.
  Bundle bundle(int microbatch) const;

  /// Slots for phases `first` to `last`, warmed up on the bundle that phase `first` finds.
  std::unique_ptr<GraphSlots> slots(int first, int last, int count, bool split = false);

 private:
  Phase recomputed(std::vector<Phase> phases) const;

  LocalRank& rank_;
  Slot hidden_, row_ids_;
  std::vector<std::shared_ptr<Layer>> layers_;
  std::vector<Phase> phases_;
  Bundle empty_;
  Tape tape_;
  Context cx_;
};

}  // namespace tessera::testing
