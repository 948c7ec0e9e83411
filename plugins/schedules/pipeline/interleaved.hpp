#pragma once
#include <algorithm>

#include "steady.hpp"
#include "tessera/bounds.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// Microbatches go through the rank's chunks in groups: a group through the first chunk, through
/// the second, …, then the next group.
class Interleaved final : public PipelineSchedule {
 public:
  struct Config {
    i64 chunks = 2;
    Auto<i64> microbatch_group;
    bool overlap = false;
    static void describe(Schema<Config>& s) {
      s.field("chunks", &Config::chunks, "model chunks (virtual stages) on each rank")
          .at_least(1)
          .at_most(kMostLayers)
          .megatron("--num-virtual-stages-per-pipeline-rank")
          .also("--num-layers-per-virtual-pipeline-stage", "follows from {} here");
      s.field("microbatch_group",
              &Config::microbatch_group,
              "microbatches in a row through one chunk, at most those of a step; \"auto\": "
              "parallel.pipeline")
          .at_least(1)
          .at_most(kMostSequences)
          .megatron("--microbatch-group-size-per-virtual-pipeline-stage");
      describe_overlap(s);
    }
  };

  Interleaved(const Config& config, ScheduleArguments& arguments)
      : overlap_(config.overlap),
        chunks_(static_cast<int>(config.chunks)),
        group_(static_cast<int>(config.microbatch_group.value_or(arguments.pipeline))) {
    if (group_ < arguments.pipeline) {
      fail_config("schedule.microbatch_group = {} must be at least parallel.pipeline = {}",
                  group_,
                  arguments.pipeline);
    }
    if (config.microbatch_group && (chunks_ == 1 || arguments.pipeline == 1)) {
      fail_config("schedule.microbatch_group = {} has no effect with {}: take it away",
                  group_,
                  chunks_ == 1 ? "schedule.chunks = 1" : "parallel.pipeline = 1");
    }
  }

  int do_chunks() const override { return chunks_; }
  bool do_overlaps() const override { return overlap_; }

  int do_warmup(const PipelineShape& shape) const override {
    const int all = shape.microbatches * chunks_;
    const int after = shape.ranks - shape.rank - 1, more = overlap_ ? 1 : 0;
    if (!shape.training) return all;
    if (shape.ranks == 1) return overlap_ ? chunks_ : 0;
    if (chunks_ == 1 && !overlap_) return std::min(after, all);  // plain 1F1B
    return std::min(2 * after + (chunks_ - 1) * group_ + more, all);
  }

  std::vector<Action> do_order(const PipelineShape& shape) const override {
    const int rest = shape.microbatches % group_;
    if (chunks_ > 1 && rest > 0 && rest < shape.ranks) {
      fail_config(
          "schedule.type = \"interleaved_1f1b\" takes microbatches in groups of {}; the last group "
          "of {} microbatches has {}, fewer than parallel.pipeline = {}: change batch.global, "
          "batch.micro or schedule.microbatch_group",
          group_,
          shape.microbatches,
          rest,
          shape.ranks);
    }
    if (chunks_ > 1 && group_ > shape.microbatches) {
      fail_config("schedule.microbatch_group = {} is larger than the {} microbatches of a step",
                  group_,
                  shape.microbatches);
    }
    check_overlap(overlap_, shape);
    if (!shape.training) return one_by_one(table(Action::F, shape, group_), {}, warmup(shape));
    if (shape.ranks == 1) return without_pipeline(shape);
    return one_by_one(
        table(Action::F, shape, group_), table(Action::B, shape, group_), warmup(shape));
  }

 private:
  std::vector<Action> table(Action::Kind kind, const PipelineShape& shape, int group) const {
    std::vector<Action> actions;
    for (int begin = 0; begin < shape.microbatches; begin += group) {
      for (int i = 0; i < chunks_; ++i) {
        const int chunk = kind == Action::F ? i : chunks_ - 1 - i;
        for (int m = begin; m < std::min(begin + group, shape.microbatches); ++m) {
          actions.push_back({kind, m, chunk});
        }
      }
    }
    return actions;
  }

  // Nobody is waited for: each microbatch goes forward through all chunks and back.
  std::vector<Action> without_pipeline(const PipelineShape& shape) const {
    const std::vector<Action> forwards = table(Action::F, shape, 1);
    const std::vector<Action> backwards = table(Action::B, shape, 1);
    if (overlap_) return one_by_one(forwards, backwards, warmup(shape));
    std::vector<Action> actions;
    for (auto f = forwards.begin(), b = backwards.begin(); f != forwards.end();
         f += chunks_, b += chunks_) {
      actions.insert(actions.end(), f, f + chunks_);
      actions.insert(actions.end(), b, b + chunks_);
    }
    return actions;
  }

  bool overlap_;
  int chunks_, group_;
};

}  // namespace tessera
