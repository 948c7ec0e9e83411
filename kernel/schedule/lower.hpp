#pragma once
#include <vector>

#include "kernel/schedule/messages.hpp"
#include "kernel/schedule/orders.hpp"
#include "tessera/plan.hpp"
#include "tessera/schedule.hpp"

namespace tessera {

/// What a training step does with the buckets of a rank's parameters.
struct BucketUse {
  /// Layers (within the model) whose parameters are in each bucket.
  std::vector<std::vector<int>> layers;
  bool gathered = false;                 ///< before they are read
  std::vector<std::string> groups = {};  ///< axes over which each is summed, for Plan::text
  std::vector<bool> prepared = {};       ///< as Plan::prepared
};

/// What the plans of all ranks have in common. Refers to the schedule.
struct Pipeline {
  /// Throws Error when the schedule lists what does not exist, or does not come to its end.
  Pipeline(const PipelineSchedule& of, const PipelineShape& shape);

  const PipelineSchedule& schedule;
  Orders orders;
  std::vector<std::vector<PlannedExchange>> exchanges;  ///< by rank
};

/// Turns a schedule's compute actions into the plan of one rank: phases in order, exchanges with
/// the other ranks (see exchanges_of), recomputed ranges before their backward, each
/// bucket's reduction after the phase whose last backward completes it, its gather and the
/// preparation of its weights before the phase that reads it first, one Step at the end. `phases`
/// are those of all chunks of this rank. verify() checks the result.
Plan lower(const Pipeline& pipeline,
           int rank,
           std::vector<PhaseInfo> phases,
           const BucketUse& buckets);
/// Lowers for one rank, shape.rank, alone.
Plan lower(const PipelineSchedule& schedule,
           const PipelineShape& shape,
           std::vector<PhaseInfo> phases,
           const BucketUse& buckets);

/// Do phases `a` and `a` + 1 of the plan belong to one recomputed range: of one layer, and both
/// dropped? Phases beyond either end belong to none.
bool in_one_recomputed_range(const Plan& plan, int a);

inline bool starts_recomputed_range(const Plan& plan, int phase) {
  return !in_one_recomputed_range(plan, phase - 1);
}
inline bool ends_recomputed_range(const Plan& plan, int phase) {
  return !in_one_recomputed_range(plan, phase);
}

/// Does action `index` run a phase that starts an exchange, and leave what it started under way?
bool leaves_under_way(const Plan& plan, std::size_t index);
/// The action that runs next in the same pass over the same chunk; -1: none does.
int next_in_pass(const Plan& plan, std::size_t index);

}  // namespace tessera
