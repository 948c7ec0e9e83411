#pragma once
#include <vector>

#include "tessera/error.hpp"
#include "tessera/schedule.hpp"

namespace tessera {

/// One microbatch after the other, forward then backward: no pipeline, least memory. With
/// `overlap` a forward runs with the backward of the microbatch before it.
class Sequential final : public PipelineSchedule {
 public:
  struct Config {
    bool overlap = false;
    static void describe(Schema<Config>& s) {
      s.field("overlap",
              &Config::overlap,
              "pair each forward with the backward of the microbatch before and interleave their "
              "phases, so that rows on their way to experts and back hide behind what the other "
              "pass computes; one more microbatch is live")
          .megatron("--overlap-moe-expert-parallel-comm");
    }
  };
  Sequential(const Config& config, ScheduleArguments& arguments) : overlap_(config.overlap) {
    if (arguments.pipeline > 1) {
      fail_config(
          "schedule.type = \"sequential\" needs parallel.pipeline = 1, not {}; choose a pipeline "
          "schedule (tessera plugins lists them)",
          arguments.pipeline);
    }
  }

  int do_live(const PipelineShape& shape, int) const override {
    return overlap_ && shape.training ? 2 : 1;
  }
  int do_warmup(const PipelineShape& shape) const override {
    return overlap_ && shape.training ? 1 : PipelineSchedule::do_warmup(shape);
  }
  bool do_overlaps() const override { return overlap_; }

  std::vector<Action> do_order(const PipelineShape& shape) const override {
    if (overlap_ && shape.training && shape.microbatches < 2) {
      fail_config(
          "schedule.overlap: a step has 1 microbatch, and a forward overlaps the backward of "
          "another one: change batch.global or batch.micro, or take overlap away");
    }
    std::vector<Action> actions;
    if (overlap_ && shape.training) actions.push_back({Action::F, 0});
    for (int microbatch = 0; microbatch < shape.microbatches; ++microbatch) {
      const int forward = microbatch + (overlap_ && shape.training ? 1 : 0);
      if (forward < shape.microbatches) actions.push_back({Action::F, forward});
      if (shape.training) actions.push_back({Action::B, microbatch});
    }
    return actions;
  }

 private:
  bool overlap_;
};

}  // namespace tessera
