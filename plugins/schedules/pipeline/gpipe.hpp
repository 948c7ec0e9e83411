#pragma once
#include "steady.hpp"

namespace tessera {

class GPipe final : public PipelineSchedule {
 public:
  using Config = NoConfig;
  GPipe(const Config&, ScheduleArguments&) {}

  std::vector<Action> do_order(const PipelineShape& shape) const override {
    const int m = shape.microbatches;
    return one_by_one(
        in_turn(Action::F, m), in_turn(Action::B, shape.training ? m : 0), shape.training ? m : 0);
  }
};

}  // namespace tessera
