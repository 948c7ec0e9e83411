#pragma once
#include <algorithm>

#include "steady.hpp"

namespace tessera {

/// 1F1B whose backward is split. Rank r runs the weight half r microbatches late: gradients reach
/// the rank before it sooner, and at the end the weight halves fill the gaps. So every rank keeps
/// as many microbatches live as the first rank of 1F1B.
class ZbH1 final : public PipelineSchedule {
 public:
  using Config = NoConfig;
  ZbH1(const Config&, ScheduleArguments&) {}

  int do_warmup(const PipelineShape& shape) const override {
    const int m = shape.microbatches;
    return shape.training ? std::min(shape.ranks - shape.rank - 1, m) : m;
  }

  std::vector<Action> do_order(const PipelineShape& shape) const override {
    const int m = shape.microbatches;
    std::vector<Action> actions;
    int weight = 0;
    for (const Action& action : one_by_one(
             in_turn(Action::F, m), in_turn(Action::Bi, shape.training ? m : 0), warmup(shape))) {
      actions.push_back(action);
      if (action.kind == Action::Bi && action.microbatch >= shape.rank) {
        actions.push_back({Action::Bw, weight++});
      }
    }
    while (shape.training && weight < m) actions.push_back({Action::Bw, weight++});
    return actions;
  }
};

}  // namespace tessera
