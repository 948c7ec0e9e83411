#pragma once
#include <vector>

#include "tessera/error.hpp"
#include "tessera/schedule.hpp"

namespace tessera {

/// One microbatch after the other, forward then backward: no pipeline, least memory.
class Sequential final : public PipelineSchedule {
 public:
  using Config = NoConfig;
  Sequential(const Config&, ScheduleArguments& arguments) {
    if (arguments.pipeline > 1) {
      fail_config(
          "schedule.type = \"sequential\" needs parallel.pipeline = 1, not {}; choose a pipeline "
          "schedule (tessera plugins lists them)",
          arguments.pipeline);
    }
  }

  int live(const PipelineShape&, int) const override { return 1; }

  std::vector<Action> order(const PipelineShape& shape) const override {
    std::vector<Action> actions;
    for (int microbatch = 0; microbatch < shape.microbatches; ++microbatch) {
      actions.push_back({Action::F, microbatch});
      if (shape.training) actions.push_back({Action::B, microbatch});
    }
    return actions;
  }
};

}  // namespace tessera
