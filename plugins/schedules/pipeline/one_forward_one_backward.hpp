#pragma once
#include <algorithm>

#include "steady.hpp"

namespace tessera {

class OneForwardOneBackward final : public PipelineSchedule {
 public:
  using Config = OverlapConfig;
  OneForwardOneBackward(const Config& config, ScheduleArguments&) : overlap_(config.overlap) {}

  bool do_overlaps() const override { return overlap_; }

  // A pair takes as long as its forward and its backward. With a single warm-up forward more than
  // without overlap, neighbours would wait for each other's pairs in turn.
  int do_warmup(const PipelineShape& shape) const override {
    const int m = shape.microbatches, after = shape.ranks - shape.rank - 1;
    return shape.training ? std::min(overlap_ ? 2 * after + 1 : after, m) : m;
  }

  std::vector<Action> do_order(const PipelineShape& shape) const override {
    const int m = shape.microbatches;
    check_overlap(overlap_, shape);
    return one_by_one(
        in_turn(Action::F, m), in_turn(Action::B, shape.training ? m : 0), warmup(shape));
  }

 private:
  bool overlap_;
};

}  // namespace tessera
