#include "kernel/graph/graph_slots.hpp"

#include <utility>

#include "kernel/graph/replayed_frame.hpp"
#include "tessera/error.hpp"

namespace tessera {

GraphSlots::GraphSlots(
    const Context& cx, CapturedPhases range, const Bundle& example, int slots, StepSink* warm_up)
    : cx_(cx), range_(std::move(range)) {
  require(slots >= 1, "\"{}\" is captured for {} graph slots", range_.name, slots);
  for (const Phase& phase : range_.phases) {
    require(phase.shapes == Shapes::fixed,
            "{}\"{}\" cannot be captured: the shapes of its phase \"{}\" depend on data",
            range_.chosen,
            range_.name,
            phase.scope);
    require(phase.reads.empty(),
            "{}\"{}\" cannot be captured: its phase \"{}\" reads integers back to the host",
            range_.chosen,
            range_.name,
            phase.scope);
  }
  for (int i = 0; i < slots; ++i) {
    frames_.push_back(std::make_unique<ReplayedFrame>(cx_, range_, i, example));
  }
  Bundle left(0, 0);
  lifetimes_ = frames_.front()->warm_up(warm_up != nullptr ? warm_up : cx_.sink, left);
  for (const auto& frame : frames_) frame->reserve(left);
}

GraphSlots::~GraphSlots() = default;

void GraphSlots::capture(Arena& scratch, Arena* recomputed) {
  for (int i = 0; i < count(); ++i) {
    capture_forward(i, {}, {&scratch, recomputed, nullptr});
    capture_backward(i, {});
  }
}

void GraphSlots::capture_forward(int slot,
                                 const std::vector<Tensor>& resident,
                                 const SlotArenas& shared) {
  at(slot).capture_forward(resident, lifetimes_, shared);
}

void GraphSlots::capture_backward(int slot, const std::vector<Tensor>& resident) {
  at(slot).capture_backward(resident);
}

void GraphSlots::drop() {
  for (const auto& frame : frames_) frame->drop();
}

std::vector<Tensor> GraphSlots::results(int slot) const { return at(slot).results(); }
const std::vector<Tensor>& GraphSlots::input_gradients(int slot) const {
  return at(slot).input_gradients();
}
const std::vector<Tensor>& GraphSlots::after_phase(int slot, std::size_t phase) const {
  return at(slot).after_phase(phase);
}
const std::vector<Tensor>& GraphSlots::inputs(int slot) const { return at(slot).inputs(); }
const std::vector<Tensor>& GraphSlots::output_gradients(int slot) const {
  return at(slot).output_gradients();
}

PhaseFrame& GraphSlots::frame(int slot) { return at(slot); }
std::span<const GraphMemory> GraphSlots::memory(int slot) const { return at(slot).memory(); }

i64 GraphSlots::launches() const { return frames_.front()->launches(); }

i64 GraphSlots::input_bytes() const {
  i64 bytes = 0;
  for (const auto& frame : frames_) bytes += frame->input_bytes();
  return bytes;
}

i64 GraphSlots::slot_bytes() const {
  i64 bytes = 0;
  for (const auto& frame : frames_) bytes += frame->slot_bytes();
  return bytes;
}

}  // namespace tessera
