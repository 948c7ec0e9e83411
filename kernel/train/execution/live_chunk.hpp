#pragma once
#include <optional>
#include <span>
#include <vector>

#include "kernel/graph/phase_frame.hpp"

namespace tessera {

/// One microbatch of one chunk, from its first forward to its last backward: its bundle, the frames
/// of its phases, and the gradients of the bundle's slots at the boundary that the backward pass
/// has reached. Phases are counted within the chunk.
class LiveChunk {
 public:
  /// Each phase runs in an eager frame of its own. The phases outlive the chunk.
  LiveChunk(Bundle bundle, std::span<const Phase> phases);
  LiveChunk(const LiveChunk&) = delete;
  LiveChunk& operator=(const LiveChunk&) = delete;
  /// Phases `first` to `last` run as this frame instead: forward with the first of them, backward
  /// with the last. It drops and recomputes activations by itself. For use before any phase has
  /// run; the frame outlives the chunk.
  void set_frame(int first, int last, PhaseFrame& frame);

  Bundle& bundle() { return bundle_; }
  /// What phase `index` would wait for first: forward what it finds under way or reads on the host,
  /// the same where it is recomputed, and gradients where it runs backward. An observer sees apart
  /// what is wait and what is work.
  void arrive(Context& cx, int index) { arrive(cx, index, bundle_); }
  void arrive_again(Context& cx, int index);
  void arrive_back(Context& cx, int index);
  /// An input from the stage before, whose gradient goes back there.
  void receive(Slot slot, Tensor value);
  /// What the slot holds, leaving it empty.
  Tensor give_up(Slot slot);
  /// The gradient of the loss with respect to a slot: of the outputs before the first backward, of
  /// the inputs after the last. take_gradient waits for it and may be undefined: zero.
  void set_gradient(Slot slot, Tensor gradient);
  Tensor take_gradient(Context& cx, Slot slot);

  void forward(Context& cx, int index);
  /// The same, keeping only the inputs: `first` of its recomputed range saves them.
  void forward_dropped(Context& cx, int index, bool first);
  /// Runs a dropped phase again, in the order of its recomputed range.
  void recompute(Context& cx, int index, bool first, bool last);
  void backward(Context& cx, int index, Half half);
  /// Are all phases done whose forward was done?
  bool finished() const { return open_ == 0; }

 private:
  struct At {
    PhaseFrame* forward = nullptr;   // the frame that begins with this phase
    PhaseFrame* backward = nullptr;  // the frame that ends with it
    std::vector<Tensor> saved;       // the bundle before a recomputed range
    bool own = true;                 // an eager frame of this phase alone
  };
  At& at(int index) { return phases_.at(static_cast<std::size_t>(index)); }
  void arrive(Context& cx, int index, Bundle& bundle);
  void run(Context& cx, int index, Bundle& bundle);
  // Does another frame have this phase, if there is one?
  bool framed(int index) const {
    return index >= 0 && index < static_cast<int>(phases_.size()) &&
           !phases_[static_cast<std::size_t>(index)].own;
  }

  std::span<const Phase> all_;
  Bundle bundle_;
  std::optional<Bundle> again_;  // of the range that is being recomputed
  EagerFrames eager_;
  std::vector<At> phases_;
  SlotGradients gradients_;
  int open_ = 0;  // phases whose forward is done and backward is not
};

}  // namespace tessera
