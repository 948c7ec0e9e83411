#pragma once
#include <ranges>
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

/// Runs one phase as it is, recorded in a frame of the tape; without a tape nothing is recorded.
/// The phase outlives it. It does not release itself when destroyed.
class EagerFrame final : public PhaseFrame {
 public:
  explicit EagerFrame(const Phase& phase) : phase_(&phase) {}

  void forward(Context& cx, Bundle& bundle) override {
    if (cx.tape != nullptr) frame_ = cx.tape->begin(bundle.tensors());
    run_phase(*phase_, cx, bundle);
    if (cx.tape != nullptr) cx.tape->end(bundle.tensors());
  }
  void arrive(Context& cx, SlotGradients& gradients) override {
    cx.tape->arrive(cx, frame_, gradients);
  }
  void backward(Context& cx, Half half, SlotGradients& gradients) override {
    cx.tape->backward(cx, frame_, half, gradients);
  }
  void release(Context& cx) override { cx.tape->release(frame_); }
  /// Waits for gradients that the weight half reads, after the input half.
  void wait(Context& cx) { cx.tape->wait(cx, frame_); }

 private:
  const Phase* phase_;
  Tape::FrameId frame_ = 0;  // of the last forward
};

/// Consecutive phases, each in an eager frame of its own, as a step without graphs runs them. The
/// gradients of a value that several phases read are thus added in one order, wherever graphs begin
/// and end.
class EagerFrames {
 public:
  EagerFrames() = default;
  explicit EagerFrames(std::span<const Phase> phases) : frames_(phases.begin(), phases.end()) {}

  std::size_t size() const { return frames_.size(); }
  EagerFrame& operator[](std::size_t phase) { return frames_[phase]; }
  /// Runs from the last phase to the first.
  void backward(Context& cx, Half half, SlotGradients& gradients) {
    for (EagerFrame& frame : std::views::reverse(frames_)) frame.backward(cx, half, gradients);
  }
  void wait(Context& cx) {
    for (EagerFrame& frame : frames_) frame.wait(cx);
  }
  void release(Context& cx) {
    for (EagerFrame& frame : frames_) frame.release(cx);
  }

 private:
  std::vector<EagerFrame> frames_;
};

}  // namespace tessera
