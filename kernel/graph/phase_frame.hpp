#pragma once
#include <span>
#include <vector>

#include "tessera/layer.hpp"

namespace tessera {

/// Gradients of the loss with respect to what a bundle holds, by slot. An undefined one is zero;
/// one may still be communicated.
using SlotGradients = std::vector<Tape::Gradient>;

/// One microbatch's run of consecutive phases, eager or replayed. Frames of both kinds follow each
/// other over one bundle: a tensor in it with a place on a tape, or the mark kNeedsGradient, needs
/// a gradient, and gradients go back through the frames in reverse order.
class PhaseFrame {
 public:
  virtual ~PhaseFrame() = default;
  /// Runs the phases on the bundle.
  virtual void forward(Context& cx, Bundle& bundle) = 0;
  /// Waits for what backward() would wait for first: `gradients` are as before it.
  virtual void arrive(Context& cx, SlotGradients& gradients) = 0;
  /// Runs one half of the backward pass, or both. `gradients` are those of what forward left in the
  /// bundle before the call, and those of what it found there after it. Half::weight follows
  /// Half::input and leaves them alone.
  virtual void backward(Context& cx, Half half, SlotGradients& gradients) = 0;
  /// Drops what forward kept for the backward pass, so that forward runs again before it.
  virtual void release(Context& cx) = 0;
};

/// Runs the phases as they are, recorded in one frame of the tape; without a tape nothing is
/// recorded. The phases outlive it. It does not release itself when destroyed.
class EagerFrame final : public PhaseFrame {
 public:
  explicit EagerFrame(std::span<const Phase> phases) : phases_(phases) {}

  void forward(Context& cx, Bundle& bundle) override {
    if (cx.tape != nullptr) frame_ = cx.tape->begin(bundle.tensors());
    for (const Phase& phase : phases_) run_phase(phase, cx, bundle);
    if (cx.tape != nullptr) cx.tape->end(bundle.tensors());
  }
  void arrive(Context& cx, SlotGradients& gradients) override {
    cx.tape->arrive(cx, frame_, gradients);
  }
  void backward(Context& cx, Half half, SlotGradients& gradients) override {
    cx.tape->backward(cx, frame_, half, gradients);
  }
  void release(Context& cx) override { cx.tape->release(frame_); }
  /// The frame of the last forward.
  Tape::FrameId frame() const { return frame_; }

 private:
  std::span<const Phase> phases_;
  Tape::FrameId frame_ = 0;
};

}  // namespace tessera
