#include "kernel/train/execution/step_replay.hpp"

#include <utility>

namespace tessera {

void StepReplay::prepare_whole(const Context& cx, Lifetimes asked) {
  whole_.emplace(cx, std::move(asked));
  prepared_ = true;
}

ModelGraphs& StepReplay::prepare_ranges(PlacedModel& model,
                                        const Plan& plan,
                                        const Context& cx,
                                        const std::vector<SampleReader::Input>& inputs) {
  ranges_.emplace(model, plan, cx, inputs);
  prepared_ = true;
  return *ranges_;
}

GraphUse StepReplay::use(i64 input_bytes) const {
  if (ranges_) return ranges_->use();
  GraphUse use;
  if (!whole_) return use;
  use.whole_step = true;
  use.segments = use.graphs = use.slots = 1;
  use.input_bytes = input_bytes;
  use.scratch_bytes = whole_->bytes();
  return use;
}

void StepReplay::check_next() {
  if (ranges_) ranges_->check_next();
}

bool StepReplay::run(
    Context& cx, i64 step, bool observed, ActionObserver& observer, const Body& body) {
  if (!whole_) {
    body(cx);
    return false;
  }
  if (observed || !whole_->captured()) {
    whole_->run(cx, body);
    return false;
  }
  replaying_ = step;
  observer.replaying(step);
  whole_->replay(cx);
  observer.replayed();
  replaying_.reset();
  return true;
}

void StepReplay::capture(const Context& cx, const Body& body) {
  if (whole_ && !whole_->captured()) whole_->capture(cx, body);
}

}  // namespace tessera
