#include "kernel/schedule/lower.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "kernel/schedule/interleave.hpp"
#include "kernel/schedule/reductions.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

using Key = std::tuple<PlanAction::Kind, int, int>;  // kind, microbatch, phase
using Edge = std::tuple<bool, int, int>;             // forward, microbatch, stage that computed it

// Appends the actions of one rank and remembers where each went.
class Lowering {
 public:
  Lowering(Plan& plan, const Orders& orders) : plan_(plan), orders_(orders) {
    for (int chunk = 0; chunk < plan.shape.chunks; ++chunk) {
      const auto mine = [&](const PhaseInfo& info) { return info.chunk == chunk; };
      const auto begin = std::ranges::find_if(plan.phases, mine);
      const auto end = std::find_if_not(begin, plan.phases.end(), mine);
      first_.push_back(static_cast<int>(begin - plan.phases.begin()));
      last_.push_back(static_cast<int>(end - plan.phases.begin()) - 1);
      require(begin != end,
              "chunk {} of pipeline rank {} has no layers: a schedule has nothing to run there",
              chunk,
              plan.shape.rank);
    }
  }

  /// Action `number` of this rank's order.
  void add(int number, const Action& action) {
    releases(number);
    const auto chunk = static_cast<std::size_t>(action.chunk);
    if (action.kind == Action::F) {
      for (int phase = first_[chunk]; phase <= last_[chunk]; ++phase) add_phase(action, phase);
    } else {
      for (int phase = last_[chunk]; phase >= first_[chunk]; --phase) {
        if (action.kind != Action::Bw) recompute(action, phase);
        add_phase(action, phase);
      }
    }
  }

  /// Actions `number` and the one after it, a pair, with what is posted once both of their results
  /// are there.
  void add(int number,
           const Action& forward,
           const Action& backward,
           std::span<const PlannedExchange> exchanges) {
    const std::vector<int> down = phases_of(forward.chunk);
    std::vector<int> up = phases_of(backward.chunk);
    std::ranges::reverse(up);
    const bool weights_last = orders_.pair_sends(static_cast<std::size_t>(plan_.shape.rank),
                                                 static_cast<std::size_t>(number));
    const std::vector<PairStep> steps = interleave(plan_.phases, down, up, weights_last);
    const auto is_weight = [](const PairStep& step) { return step.kind == Action::Bw; };
    const auto complete = std::find_if_not(steps.rbegin(), steps.rend(), is_weight).base();
    for (auto at = steps.begin();; ++at) {
      if (at == complete) {
        for (const PlannedExchange& exchange : exchanges) add(exchange);
      }
      if (at == steps.end()) return;
      const PairStep& step = *at;
      if (step.kind == Action::F) {
        if (step.phase == down.front()) releases(number);
        add_phase(forward, step.phase);
        continue;
      }
      if (step.phase == up.front() && step.kind != Action::Bw) releases(number + 1);
      Action half = backward;
      half.kind = step.kind;
      if (half.kind != Action::Bw) recompute(half, step.phase);
      add_phase(half, step.phase);
    }
  }

  void add(const PlannedExchange& exchange) {
    PlanAction next;
    next.kind = PlanAction::Exchange;
    next.sends = exchange.sends;
    next.receives = exchange.receives;
    for (const PlanAction::Message& message : next.sends) {
      const int chunk = orders_.owners[static_cast<std::size_t>(message.stage)].chunk;
      after_edge_phase(next, message.forward, message.microbatch, static_cast<std::size_t>(chunk));
    }
    for (const PlanAction::Message& message : next.receives) {
      received_[{message.forward, message.microbatch, message.stage}] = index();
    }
    if (!next.sends.empty()) releases_.emplace(exchange.released, index());
    plan_.actions.push_back(std::move(next));
  }

 private:
  int index() const { return static_cast<int>(plan_.actions.size()); }

  std::vector<int> phases_of(int chunk) const {
    const auto at = static_cast<std::size_t>(chunk);
    std::vector<int> phases(static_cast<std::size_t>(last_[at] - first_[at] + 1));
    std::iota(phases.begin(), phases.end(), first_[at]);
    return phases;
  }

  // The first phase of action `number` waits for these sends.
  void releases(int number) {
    const auto [begin, end] = releases_.equal_range(number);
    for (auto exchange = begin; exchange != end; ++exchange) released_.push_back(exchange->second);
  }

  void after(PlanAction& next, PlanAction::Kind kind, int phase) const {
    const auto found = index_.find({kind, next.microbatch, phase});
    if (found != index_.end()) next.after.push_back(found->second);
  }

  // Call after the action that computes what leaves a chunk.
  void after_edge_phase(PlanAction& next, bool forward, int microbatch, std::size_t chunk) const {
    const int phase = forward ? last_[chunk] : first_[chunk];
    for (const auto kind : {PlanAction::F, PlanAction::B, PlanAction::Bi}) {
      if (forward != (kind == PlanAction::F)) continue;
      const auto found = index_.find({kind, microbatch, phase});
      if (found != index_.end()) next.after.push_back(found->second);
    }
  }

  // Call after what brings the value that enters a chunk: an exchange, or a neighbour on this rank.
  void after_neighbour(PlanAction& next, bool forward) {
    next.released = std::exchange(released_, {});
    const int stage = plan_.stages[static_cast<std::size_t>(next.chunk)] + (forward ? -1 : 1);
    if (stage < 0 || stage > orders_.last_stage()) return;
    const Orders::Owner owner = orders_.owners[static_cast<std::size_t>(stage)];
    if (owner.rank == plan_.shape.rank) {
      after_edge_phase(next, forward, next.microbatch, static_cast<std::size_t>(owner.chunk));
      return;
    }
    const auto found = received_.find({forward, next.microbatch, stage});
    if (found != received_.end()) next.after.push_back(found->second);
  }

  void push(PlanAction next, int phase) {
    next.phase = phase;
    index_[{next.kind, next.microbatch, phase}] = index();
    plan_.actions.push_back(std::move(next));
  }

  static PlanAction start(PlanAction::Kind kind, const Action& action) {
    PlanAction next;
    next.kind = kind;
    next.microbatch = action.microbatch;
    next.chunk = action.chunk;
    return next;
  }

  void add_phase(const Action& action, int phase) {
    const auto chunk = static_cast<std::size_t>(action.chunk);
    PlanAction next = start(static_cast<PlanAction::Kind>(action.kind), action);
    switch (action.kind) {
      case Action::F:
        if (phase > first_[chunk]) after(next, PlanAction::F, phase - 1);
        if (phase == first_[chunk]) after_neighbour(next, true);
        break;
      case Action::Bw:
        after(next, PlanAction::Bi, phase);
        break;
      default:
        after(next, PlanAction::F, last_[chunk]);
        for (const auto kind : {PlanAction::B, PlanAction::Bi}) {
          if (phase < last_[chunk]) after(next, kind, phase + 1);
        }
        if (phase == last_[chunk]) after_neighbour(next, false);
        after(next, PlanAction::Recompute, phase);
    }
    push(std::move(next), phase);
  }

  // Before the backward of a range's last phase, runs all its phases again, forward.
  void recompute(const Action& action, int last) {
    const bool dropped = plan_.phases[static_cast<std::size_t>(last)].recompute;
    if (!dropped || !ends_recomputed_range(plan_, last)) return;
    int first = last;
    while (!starts_recomputed_range(plan_, first)) --first;
    for (int phase = first; phase <= last; ++phase) {
      PlanAction next = start(PlanAction::Recompute, action);
      after(next, PlanAction::F, phase);
      if (phase > first) after(next, PlanAction::Recompute, phase - 1);
      push(std::move(next), phase);
    }
  }

  Plan& plan_;
  const Orders& orders_;
  std::vector<int> first_, last_;  // phases, by chunk
  std::map<Key, int> index_;
  std::map<Edge, int> received_;      // exchange that receives it
  std::multimap<int, int> releases_;  // exchange by the number of the action that releases it
  std::vector<int> released_;         // by the action that is added now
};

}  // namespace

Pipeline::Pipeline(const PipelineSchedule& of, const PipelineShape& shape)
    : schedule(of), orders(orders_of(of, shape)), exchanges(orders.by_rank.size()) {
  if (shape.ranks > 1) exchanges = exchanges_of(orders);
}

Plan lower(const Pipeline& pipeline,
           int pipeline_rank,
           std::vector<PhaseInfo> phases,
           const BucketUse& buckets) {
  const Orders& orders = pipeline.orders;
  const auto rank = static_cast<std::size_t>(pipeline_rank);
  Plan plan;
  plan.shape = orders.shape;
  plan.shape.rank = pipeline_rank;
  plan.phases = std::move(phases);
  plan.stages = orders.stages[rank];
  for (int chunk = 0; chunk < plan.shape.chunks; ++chunk) {
    plan.live.push_back(pipeline.schedule.live(plan.shape, chunk));
  }

  Lowering lowering(plan, orders);
  const std::vector<Action>& order = orders.by_rank[rank];
  std::span<const PlannedExchange> exchanges = pipeline.exchanges[rank];
  const auto take = [&](std::size_t count) {
    const auto taken = exchanges.first(count);
    exchanges = exchanges.subspan(count);
    return taken;
  };
  for (int i = 0; i <= static_cast<int>(order.size()); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool pair = at < order.size() && orders.leads_pair(rank, at);
    // Those that are posted before the action. What a pair sends is posted within it.
    std::size_t before = 0, within = 0;
    for (const PlannedExchange& exchange : exchanges) {
      if (exchange.before > (pair ? i + 2 : i)) break;
      ++within;
      if (exchange.before <= (pair ? i + 1 : i)) before = within;
    }
    for (const PlannedExchange& exchange : take(before)) lowering.add(exchange);
    within -= before;
    while (within > 0 && exchanges[within - 1].sends.empty()) --within;
    if (pair) {
      lowering.add(i++, order[at], order[at + 1], take(within));
    } else if (at < order.size()) {
      lowering.add(i, order[at]);
    }
  }
  if (!plan.shape.training) return plan;

  plan.bucket_layers = buckets.layers;
  plan.bucket_groups = buckets.groups;
  plan.gathers = buckets.gathered;
  plan.prepared = buckets.prepared;
  add_reductions(plan);
  if (plan.gathers) add_gathers(plan);
  add_prepares(plan);
  add_step(plan);
  return plan;
}

Plan lower(const PipelineSchedule& schedule,
           const PipelineShape& shape,
           std::vector<PhaseInfo> phases,
           const BucketUse& buckets) {
  return lower({schedule, shape}, shape.rank, std::move(phases), buckets);
}

bool leaves_under_way(const Plan& plan, std::size_t index) {
  const PlanAction& action = plan.actions[index];
  if (action.phase < 0 || action.kind == PlanAction::Bw) return false;
  const PhaseInfo& phase = plan.phases[static_cast<std::size_t>(action.phase)];
  return phase.starts_exchange && phase.graph < 0;
}

int next_in_pass(const Plan& plan, std::size_t index) {
  const PlanAction& action = plan.actions[index];
  for (std::size_t i = index + 1; i < plan.actions.size(); ++i) {
    const PlanAction& later = plan.actions[i];
    const bool same = later.phase >= 0 && later.microbatch == action.microbatch &&
                      later.chunk == action.chunk &&
                      (later.kind == PlanAction::F) == (action.kind == PlanAction::F);
    if (same && std::ranges::count(later.after, static_cast<int>(index)) > 0) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

bool in_one_recomputed_range(const Plan& plan, int a) {
  if (a < 0 || a + 1 >= static_cast<int>(plan.phases.size())) return false;
  const PhaseInfo& x = plan.phases[static_cast<std::size_t>(a)];
  const PhaseInfo& y = plan.phases[static_cast<std::size_t>(a) + 1];
  return x.recompute && y.recompute && x.chunk == y.chunk && x.layer == y.layer;
}

}  // namespace tessera
