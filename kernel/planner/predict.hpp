#pragma once
#include <array>
#include <string>
#include <vector>

#include "kernel/planner/representative.hpp"
#include "kernel/schedule/timeline.hpp"

namespace tessera {

/// All groups along some axes of the layout.
struct PlannedGroups {
  std::string axes;
  std::vector<std::vector<i64>> members;
  bool within_host = true;  ///< every one of them
};

/// What training with a configuration will do, without starting it.
struct Prediction {
  std::string run;
  Hardware hardware;
  bool table_of_run = false;  ///< run.hardware names it
  Layout layout;
  i64 data = 1, microbatches = 1, micro = 1, global = 1, sequence_length = 1;
  i64 ranks_on_unit = 1;  ///< device.share: neighbours on a host
  std::vector<std::string> notes;
  std::vector<PlannedGroups> groups;    ///< of more than one rank
  std::vector<Representative> classes;  ///< by pipeline, then by context coordinate
  i64 parameters = 0;                   ///< of the whole model, logical
  i64 active_parameters = 0;            ///< of them, those that one token uses
  std::string picture;                  ///< of the schedule, in its units
  double model_flops = 0;  ///< of one step, whatever the layout (model_flops_per_token)
  double flops = 0;        ///< of one step, as launched, on all ranks

  Timeline timeline;         ///< of the context coordinate that takes longest, in seconds
  i64 timeline_context = 0;  ///< that coordinate
  bool overlaps = false;     ///< PipelineSchedule::overlaps
  double bubble = 0;         ///< Timeline::bubble
  double step_seconds = 0;   ///< the slowest rank's
  double mfu = 0;            ///< model_flops against the peak of all ranks
  double tokens_per_second() const;
  double flops_per_second_and_rank() const;
};

/// What one pipeline rank does of one kind while phases run, over a step.
struct PlannedOverlap {
  int buckets = 0;
  double seconds = 0, hidden = 0;  ///< hidden: as Timeline::Overlapped
};
PlannedOverlap overlap_of(const Timeline& timeline, std::size_t rank, PlanAction::Kind kind);

/// Runs one representative of each class of ranks and plays their plans together. Throws Error with
/// what is wrong with the configuration, as a run would.
Prediction predict(const PlanArguments& arguments);

}  // namespace tessera
