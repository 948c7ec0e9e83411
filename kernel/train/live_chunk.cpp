#include "kernel/train/live_chunk.hpp"

#include <utility>

#include "tessera/error.hpp"

namespace tessera {

LiveChunk::LiveChunk(Bundle bundle, std::size_t phases)
    : bundle_(std::move(bundle)),
      frames_(phases),
      received_(bundle_.tensors().size(), false),
      gradients_(bundle_.tensors().size()) {}

void LiveChunk::receive(Slot slot, Tensor value) {
  bundle_[slot] = std::move(value);
  received_.at(static_cast<std::size_t>(slot.index)) = true;
}

Tensor LiveChunk::give_up(Slot slot) { return std::exchange(bundle_[slot], Tensor()).with_var({}); }

void LiveChunk::set_gradient(Slot slot, Tensor gradient) {
  gradients_.at(static_cast<std::size_t>(slot.index)) = {std::move(gradient), {}};
}

Tensor LiveChunk::take_gradient(Context& cx, Slot slot) {
  Tape::Result result =
      std::exchange(gradients_.at(static_cast<std::size_t>(slot.index)), Tape::Result());
  result.pending.wait(*cx.stream);
  return std::move(result.gradient);
}

void LiveChunk::run(Context& cx, int index, const Phase& phase, Bundle& bundle) {
  Frame& at = frame(index);
  std::vector<Tensor>& slots = bundle.tensors();
  at.id = cx.tape->begin();
  at.inputs.assign(slots.size(), {});
  at.outputs.assign(slots.size(), {});
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const bool tracked = slots[i].var() || (index == 0 && received_[i]);
    if (!slots[i].defined() || !tracked) continue;
    slots[i] = cx.tape->leaf(slots[i]);
    at.inputs[i] = slots[i].var();
  }
  phase.run(cx, bundle);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].defined() && cx.tape->tracks(slots[i])) at.outputs[i] = slots[i].var();
  }
  cx.tape->end();
}

void LiveChunk::forward(Context& cx, int index, const Phase& phase) {
  if (cx.tape == nullptr) {
    phase.run(cx, bundle_);
    return;
  }
  run(cx, index, phase, bundle_);
  ++open_;
}

void LiveChunk::forward_dropped(Context& cx, int index, const Phase& phase, bool first) {
  if (first) frame(index).saved = bundle_.tensors();
  // Recorded, so that the outputs are known to need gradients; what was kept for them goes at once.
  run(cx, index, phase, bundle_);
  cx.tape->release(std::exchange(frame(index).id, 0));
  ++open_;
}

void LiveChunk::recompute(Context& cx, int index, const Phase& phase, bool first, bool last) {
  if (first) {
    again_.emplace(bundle_);
    again_->tensors() = std::exchange(frame(index).saved, {});
  }
  require(again_.has_value(), "a phase is recomputed before the first one of its segment");
  Context again = cx;
  again.recomputing = true;
  run(again, index, phase, *again_);
  if (last) again_.reset();
}

void LiveChunk::backward(Context& cx, int index, Half half) {
  Frame& at = frame(index);
  if (half == Half::weight) {
    cx.tape->backward(cx, at.id, half, {}, {});
  } else {
    std::vector<Tape::Seed> seeds;
    std::vector<Var> into;
    std::vector<std::size_t> into_slots;
    for (std::size_t i = 0; i < at.outputs.size(); ++i) {
      if (at.outputs[i]) {
        Tape::Result& gradient = gradients_[i];
        seeds.push_back({at.outputs[i], std::move(gradient.gradient), std::move(gradient.pending)});
      }
      gradients_[i] = {};
      if (!at.inputs[i]) continue;
      into.push_back(at.inputs[i]);
      into_slots.push_back(i);
    }
    auto results = cx.tape->backward(cx, at.id, half, seeds, into);
    for (std::size_t i = 0; i < results.size(); ++i) {
      gradients_[into_slots[i]] = std::move(results[i]);
    }
  }
  if (half == Half::input) return;
  cx.tape->release(at.id);
  at = {};
  --open_;
}

}  // namespace tessera
