#pragma once
#include <algorithm>

#include "steady.hpp"

namespace tessera {

class OneForwardOneBackward final : public PipelineSchedule {
 public:
  using Config = NoConfig;
  OneForwardOneBackward(const Config&, ScheduleArguments&) {}

  int warmup(const PipelineShape& shape) const override {
    const int m = shape.microbatches;
    return shape.training ? std::min(shape.ranks - shape.rank - 1, m) : m;
  }

  std::vector<Action> order(const PipelineShape& shape) const override {
    const int m = shape.microbatches;
    return one_by_one(
        in_turn(Action::F, m), in_turn(Action::B, shape.training ? m : 0), warmup(shape));
  }
};

}  // namespace tessera
