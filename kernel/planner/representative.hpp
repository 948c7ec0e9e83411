#pragma once
#include <string>
#include <vector>

#include "kernel/comm/communicators.hpp"
#include "kernel/planner/meter.hpp"
#include "kernel/schedule/lower.hpp"
#include "kernel/schedule/trace.hpp"
#include "kernel/train/execution/graph_use.hpp"
#include "kernel/train/run/dry_run.hpp"
#include "kernel/train/run/effects.hpp"

namespace tessera {

/// Messages of one step in one group.
struct Traffic {
  std::string axes;  ///< shown_group(): "tp", "dp-cp"
  int size = 1;
  bool within_host = true;
  CollectiveKind kind = CollectiveKind::barrier;
  CommLane lane = CommLane::critical;
  i64 calls = 0, bytes = 0;  ///< as GroupCounters has them
};

/// Memory, messages and costs of one rank, measured over two steps on a dry rank: of the class's
/// first, or of the one that holds most where replicas own whole parameters.
struct Representative {
  RankClass of;
  std::vector<std::string> layers;
  i64 parameters = 0;       ///< elements that it stores, padding included
  i64 model_elements = 0;   ///< of the whole model, logical
  i64 active_elements = 0;  ///< of them, those that one token uses
  MemoryStats memory;       ///< peaks from the start to the end of the second step
  i64 scratch = 0;          ///< most bytes that communicators take at once beyond tensors
  i64 staged = 0;           ///< bytes of host blocks for staged collectives; 0: comm.staged is off
  i64 snapshot = 0;         ///< most bytes that checkpoint.asynchronous copies to the host; 0: off
  bool on_host = true;      ///< the device's memory is the host's
  /// What the rank holds of its device's memory: untouched pages of a host are no memory. Where
  /// collectives are staged, what communicators take is the host's.
  i64 held() const {
    if (on_host) return scratch + memory.touched + snapshot;
    return memory.reserved + (staged > 0 ? 0 : scratch);
  }
  std::vector<Traffic> traffic;
  Plan plan;
  GraphUse graphs;                        ///< what is captured, if anything is
  std::vector<StepMeter::Cost> actions;   ///< by index in the plan
  std::vector<TracedReadback> readbacks;  ///< that the host waits for
  StepMeter::Cost prologue, total;
  Effects use;
  int microbatches = 0;  ///< that were launched; the step's others are like some of them
};

struct PlanArguments {
  const Resolved* config = nullptr;
  const PluginHost* plugins = nullptr;
  i64 world = 1;
  int threads = 1;  ///< CPU threads of a rank; some kernels' workspace depends on them
  int workers = 1;  ///< CPU threads of the planner, each with a representative at a time
  Hardware hardware;
  /// Rows at the experts of every rank, against their mean over the ranks: each rank is planned as
  /// the most loaded one.
  double imbalance = 1;
  bool every_microbatch = false;  ///< launches also those that are like earlier ones; for tests
};

/// One representative of each class, in the order of `classes`; equal for any number of workers.
/// Throws ConfigError for tables and names that have no effect on the model.
std::vector<Representative> run_representatives(const PlanArguments& arguments,
                                                const RunSetup& setup,
                                                const std::vector<RankClass>& classes,
                                                const Pipeline& pipeline);

}  // namespace tessera
