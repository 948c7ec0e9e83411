#pragma once
#include <optional>
#include <vector>

#include "tessera/context.hpp"
#include "tessera/layer.hpp"

namespace tessera {

/// One microbatch of one chunk, from its first forward to its last backward: its bundle, a tape
/// frame a phase, and the gradients of the slots at the boundary that the backward pass has
/// reached. Phases are counted within the chunk.
class LiveChunk {
 public:
  LiveChunk(Bundle bundle, std::size_t phases);

  Bundle& bundle() { return bundle_; }
  /// An input from the stage before, whose gradient goes back there.
  void receive(Slot slot, Tensor value);
  /// What the slot holds, leaving it empty.
  Tensor give_up(Slot slot);
  /// The gradient of the loss with respect to a slot: of the outputs before the first backward, of
  /// the inputs behind the last. take_gradient waits for it and may be undefined: zero.
  void set_gradient(Slot slot, Tensor gradient);
  Tensor take_gradient(Context& cx, Slot slot);

  void forward(Context& cx, int index, const Phase& phase);
  /// The same, keeping only the inputs: `first` of its segment saves them.
  void forward_dropped(Context& cx, int index, const Phase& phase, bool first);
  /// Runs a dropped phase again, in the order of its segment.
  void recompute(Context& cx, int index, const Phase& phase, bool first, bool last);
  void backward(Context& cx, int index, Half half);
  /// Are all phases done whose forward was done?
  bool finished() const { return open_ == 0; }

 private:
  struct Frame {
    Tape::FrameId id = 0;
    std::vector<Var> inputs, outputs;  // by slot; 0 where nothing is tracked
    std::vector<Tensor> saved;         // slots in front of a segment that is recomputed
  };
  void run(Context& cx, int index, const Phase& phase, Bundle& bundle);
  Frame& frame(int index) { return frames_.at(static_cast<std::size_t>(index)); }

  Bundle bundle_;
  std::optional<Bundle> again_;  // of the segment that is being recomputed
  std::vector<Frame> frames_;
  std::vector<bool> received_;           // by slot
  std::vector<Tape::Result> gradients_;  // by slot
  int open_ = 0;                         // phases whose forward is done and backward is not
};

}  // namespace tessera
