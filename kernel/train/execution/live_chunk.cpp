#include "kernel/train/execution/live_chunk.hpp"

#include <utility>

#include "tessera/error.hpp"

namespace tessera {

LiveChunk::LiveChunk(Bundle bundle, std::span<const Phase> phases)
    : all_(phases),
      bundle_(std::move(bundle)),
      eager_(phases),
      phases_(phases.size()),
      gradients_(bundle_.tensors().size()) {
  for (std::size_t i = 0; i < phases.size(); ++i) phases_[i] = {&eager_[i], &eager_[i], {}, true};
}

void LiveChunk::set_frame(int first, int last, PhaseFrame& frame) {
  for (int i = first; i <= last; ++i) at(i) = {nullptr, nullptr, {}, false};
  at(first).forward = at(last).backward = &frame;
}

void LiveChunk::arrive(Context& cx, int index, Bundle& bundle) {
  bundle.arrive(*cx.stream);
  const Phase& phase = all_[static_cast<std::size_t>(index)];
  if (phase.skipped(cx)) return;
  for (const HostSlot slot : phase.reads) bundle.await(*cx.device, slot);
}

void LiveChunk::arrive_again(Context& cx, int index) {
  if (again_) arrive(cx, index, *again_);
}

void LiveChunk::arrive_back(Context& cx, int index) {
  if (PhaseFrame* frame = at(index).backward) frame->arrive(cx, gradients_);
}

void LiveChunk::receive(Slot slot, Tensor value) { bundle_[slot] = value.with_var(kNeedsGradient); }

Tensor LiveChunk::give_up(Slot slot) { return std::exchange(bundle_[slot], Tensor()).with_var({}); }

void LiveChunk::set_gradient(Slot slot, Tensor gradient) {
  gradients_.at(static_cast<std::size_t>(slot.index)) = {std::move(gradient), {}};
}

Tensor LiveChunk::take_gradient(Context& cx, Slot slot) {
  Tape::Gradient gradient =
      std::exchange(gradients_.at(static_cast<std::size_t>(slot.index)), Tape::Gradient());
  gradient.pending.wait(*cx.stream);
  return std::move(gradient.tensor);
}

void LiveChunk::run(Context& cx, int index, Bundle& bundle) {
  if (PhaseFrame* frame = at(index).forward) frame->forward(cx, bundle);
}

void LiveChunk::forward(Context& cx, int index) {
  run(cx, index, bundle_);
  ++open_;
}

void LiveChunk::forward_dropped(Context& cx, int index, bool first) {
  if (framed(index)) return forward(cx, index);
  if (first || framed(index - 1)) at(index).saved = bundle_.tensors();
  // Recorded, so that the outputs are known to need gradients; what was kept for them goes at once.
  forward(cx, index);
  at(index).forward->release(cx);
}

void LiveChunk::recompute(Context& cx, int index, bool first, bool last) {
  if (framed(index)) return;
  if (first || framed(index - 1)) {
    again_.emplace(bundle_);
    again_->tensors() = std::exchange(at(index).saved, {});
  }
  require(again_.has_value(), "a phase is recomputed before the first one of its range");
  Context again = cx;
  again.recomputing = true;
  run(again, index, *again_);
  if (!last && !framed(index + 1)) return;
  again_->arrive(*cx.stream);
  again_.reset();
}

void LiveChunk::backward(Context& cx, int index, Half half) {
  if (PhaseFrame* frame = at(index).backward) frame->backward(cx, half, gradients_);
  if (half != Half::input) --open_;
}

}  // namespace tessera
