#include "kernel/schedule/lower.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "tessera/error.hpp"

namespace tessera {

namespace {

using Key = std::tuple<PlanAction::Kind, int, int, int>;  // kind, microbatch, chunk, phase

// Appends the compute actions of one rank and remembers where each went.
class Lowering {
 public:
  Lowering(Plan& plan, const std::vector<int>& first, const std::vector<int>& count)
      : plan_(plan), first_(first), count_(count) {}

  void add(const Action& action) {
    require(action.microbatch >= 0 && action.microbatch < plan_.shape.microbatches &&
                action.chunk >= 0 && action.chunk < plan_.shape.chunks,
            "the schedule lists microbatch {} of chunk {}: there are {} microbatches and {} chunks",
            action.microbatch,
            action.chunk,
            plan_.shape.microbatches,
            plan_.shape.chunks);
    const int phases = count_[static_cast<std::size_t>(action.chunk)];
    const bool forward = action.kind == Action::F;
    for (int i = 0; i < phases; ++i) {
      add_phase(action, forward ? i : phases - 1 - i, forward, phases);
    }
  }

 private:
  void add_phase(const Action& action, int phase, bool forward, int phases) {
    PlanAction next;
    next.kind = static_cast<PlanAction::Kind>(action.kind);
    next.microbatch = action.microbatch;
    next.chunk = action.chunk;
    next.phase = first_[static_cast<std::size_t>(action.chunk)] + phase;
    next.lane = plan_.phases[static_cast<std::size_t>(next.phase)].lane;
    const auto after = [&](PlanAction::Kind kind, int local) {
      const auto found = index_.find({kind,
                                      action.microbatch,
                                      action.chunk,
                                      first_[static_cast<std::size_t>(action.chunk)] + local});
      if (found != index_.end()) next.after.push_back(found->second);
    };
    if (forward) {
      if (phase > 0) after(PlanAction::F, phase - 1);
    } else if (action.kind == Action::Bw) {
      after(PlanAction::Bi, phase);
    } else {
      after(PlanAction::F, phases - 1);
      if (phase + 1 < phases) after(next.kind, phase + 1);
    }
    index_[{next.kind, next.microbatch, next.chunk, next.phase}] =
        static_cast<int>(plan_.actions.size());
    plan_.actions.push_back(std::move(next));
  }

  Plan& plan_;
  const std::vector<int>& first_;
  const std::vector<int>& count_;
  std::map<Key, int> index_;
};

// Index of the last action that adds to the gradients of one of these layers, or -1.
int completes(const Plan& plan, const std::vector<int>& layers) {
  for (int i = static_cast<int>(plan.actions.size()) - 1; i >= 0; --i) {
    const PlanAction& action = plan.actions[static_cast<std::size_t>(i)];
    if (action.kind != PlanAction::B && action.kind != PlanAction::Bw) continue;
    const int layer = plan.phases[static_cast<std::size_t>(action.phase)].layer;
    if (std::ranges::find(layers, layer) != layers.end()) return i;
  }
  return -1;
}

// Inserts the reductions of `at[i]` behind action i; indices in `after` move along.
void insert_reductions(Plan& plan, const std::map<int, std::vector<int>>& at) {
  std::vector<PlanAction> merged;
  std::vector<int> moved;
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    moved.push_back(static_cast<int>(merged.size()));
    merged.push_back(std::move(plan.actions[i]));
    for (int& index : merged.back().after) index = moved[static_cast<std::size_t>(index)];
    const auto found = at.find(static_cast<int>(i));
    if (found == at.end()) continue;
    for (const int bucket : found->second) {
      PlanAction reduce;
      reduce.kind = PlanAction::Reduce;
      reduce.bucket = bucket;
      reduce.lane = Lane::comm;
      reduce.after = {moved.back()};
      merged.push_back(std::move(reduce));
    }
  }
  plan.actions = std::move(merged);
}

}  // namespace

Plan lower(const PipelineSchedule& schedule,
           const PipelineShape& shape,
           std::vector<PhaseInfo> phases,
           const std::vector<std::vector<int>>& bucket_layers) {
  Plan plan;
  plan.shape = shape;
  plan.phases = std::move(phases);
  std::vector<int> first(static_cast<std::size_t>(shape.chunks), 0), count = first;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    const auto mine = [&](const PhaseInfo& info) { return info.chunk == chunk; };
    const auto begin = std::ranges::find_if(plan.phases, mine);
    first[static_cast<std::size_t>(chunk)] = static_cast<int>(begin - plan.phases.begin());
    count[static_cast<std::size_t>(chunk)] =
        static_cast<int>(std::ranges::count_if(plan.phases, mine));
    plan.live.push_back(schedule.live(shape, chunk));
    plan.stages.push_back(schedule.place(shape, shape.rank, chunk).stage);
  }
  Lowering lowering(plan, first, count);
  for (const Action& action : schedule.order(shape)) lowering.add(action);
  if (!shape.training) return plan;

  std::map<int, std::vector<int>> at;
  for (std::size_t bucket = 0; bucket < bucket_layers.size(); ++bucket) {
    const int last = completes(plan, bucket_layers[bucket]);
    require(last >= 0, "no backward action completes gradient bucket {}", bucket);
    at[last].push_back(static_cast<int>(bucket));
  }
  insert_reductions(plan, at);
  PlanAction step;
  step.kind = PlanAction::Step;
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    if (plan.actions[i].kind == PlanAction::Reduce) step.after.push_back(static_cast<int>(i));
  }
  plan.actions.push_back(std::move(step));
  return plan;
}

}  // namespace tessera
