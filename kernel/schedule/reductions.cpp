#include "kernel/schedule/reductions.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tessera/error.hpp"

namespace tessera {

namespace {

// Indices of the last actions that add to the gradients of each of these layers.
std::vector<int> completes(const Plan& plan, const std::vector<int>& layers) {
  std::map<int, int> last;
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    const PlanAction& action = plan.actions[i];
    if (action.kind != PlanAction::B && action.kind != PlanAction::Bw) continue;
    const int layer = plan.phases[static_cast<std::size_t>(action.phase)].layer;
    if (std::ranges::find(layers, layer) != layers.end()) last[layer] = static_cast<int>(i);
  }
  std::vector<int> indices;
  indices.reserve(last.size());
  for (const auto& [layer, index] : last) indices.push_back(index);
  std::ranges::sort(indices);
  return indices;
}

// Inserts actions, each before the action of the plan that is its key (those with equal keys in
// order). What they wait for are actions of the plan as it was; all indices move along. Returns
// where the inserted ones are now.
std::vector<int> insert(Plan& plan, std::multimap<int, PlanAction> inserted) {
  std::vector<PlanAction> merged;
  std::vector<int> moved, places;
  const auto move = [&](PlanAction& action) {
    for (auto* list : {&action.after, &action.released}) {
      for (int& index : *list) index = moved[static_cast<std::size_t>(index)];
    }
    merged.push_back(std::move(action));
  };
  for (int i = 0; i <= static_cast<int>(plan.actions.size()); ++i) {
    const auto [begin, end] = inserted.equal_range(i);
    for (auto entry = begin; entry != end; ++entry) {
      places.push_back(static_cast<int>(merged.size()));
      move(entry->second);
    }
    if (i == static_cast<int>(plan.actions.size())) break;
    moved.push_back(static_cast<int>(merged.size()));
    move(plan.actions[static_cast<std::size_t>(i)]);
  }
  plan.actions = std::move(merged);
  return places;
}

PlanAction for_bucket(PlanAction::Kind kind, int bucket) {
  PlanAction action;
  action.kind = kind;
  action.bucket = bucket;
  return action;
}

// The place after the last action that a reduction waits for, and after the exchange that sends the
// same action's gradients on: the neighbour waits for it.
int place_after(const Plan& plan, int last) {
  const auto next = static_cast<std::size_t>(last) + 1;
  const bool sends =
      next < plan.actions.size() && plan.actions[next].kind == PlanAction::Exchange &&
      std::ranges::find(plan.actions[next].after, last) != plan.actions[next].after.end();
  return last + (sends ? 2 : 1);
}

// The first forward action of one of these layers. A graph reads what all of its phases read, with
// the first of them.
int first_reader(const Plan& plan, const std::vector<int>& layers) {
  const auto in_layers = [&](const PhaseInfo& info) {
    return std::ranges::find(layers, info.layer) != layers.end();
  };
  const auto reads = [&](const PlanAction& action) {
    if (action.kind != PlanAction::F) return false;
    const PhaseInfo& phase = plan.phases[static_cast<std::size_t>(action.phase)];
    if (phase.graph < 0) return in_layers(phase);
    return std::ranges::any_of(plan.phases, [&](const PhaseInfo& info) {
      return info.graph == phase.graph && in_layers(info);
    });
  };
  const auto found = std::ranges::find_if(plan.actions, reads);
  require(found != plan.actions.end(),
          "no forward action reads a bucket that is gathered or prepared");
  return static_cast<int>(found - plan.actions.begin());
}

// Inserts actions that bring a bucket, as insert does; its first reader waits for them.
void insert_for_readers(Plan& plan, std::multimap<int, PlanAction> inserted) {
  for (const int place : insert(plan, std::move(inserted))) {
    const auto bucket =
        static_cast<std::size_t>(plan.actions[static_cast<std::size_t>(place)].bucket);
    const int first = first_reader(plan, plan.bucket_layers[bucket]);
    plan.actions[static_cast<std::size_t>(first)].after.push_back(place);
  }
}

}  // namespace

void add_reductions(Plan& plan) {
  std::multimap<int, PlanAction> reductions;
  for (std::size_t bucket = 0; bucket < plan.bucket_layers.size(); ++bucket) {
    PlanAction reduce = for_bucket(PlanAction::Reduce, static_cast<int>(bucket));
    reduce.after = completes(plan, plan.bucket_layers[bucket]);
    require(!reduce.after.empty(), "no backward action completes gradient bucket {}", bucket);
    reductions.emplace(place_after(plan, reduce.after.back()), std::move(reduce));
  }
  insert(plan, std::move(reductions));
}

void add_gathers(Plan& plan) {
  std::multimap<int, int> by_reader;  // buckets
  for (std::size_t bucket = 0; bucket < plan.bucket_layers.size(); ++bucket) {
    by_reader.emplace(first_reader(plan, plan.bucket_layers[bucket]), static_cast<int>(bucket));
  }
  std::multimap<int, PlanAction> gathers;
  int reader = 0, before = 0;  // of the bucket at hand, of the one that is read before it
  for (const auto& [reads, bucket] : by_reader) {
    if (reads != reader) before = std::exchange(reader, reads);
    gathers.emplace(before, for_bucket(PlanAction::Gather, bucket));
  }
  insert_for_readers(plan, std::move(gathers));
}

// Packing runs on the compute stream, so nothing is won by being early: the last moment gives the
// gather the most time.
void add_prepares(Plan& plan) {
  std::multimap<int, PlanAction> prepares;
  for (std::size_t bucket = 0; bucket < plan.prepared.size(); ++bucket) {
    if (!plan.prepared[bucket]) continue;
    PlanAction prepare = for_bucket(PlanAction::Prepare, static_cast<int>(bucket));
    const auto gather = std::ranges::find_if(plan.actions, [&](const PlanAction& action) {
      return action.kind == PlanAction::Gather && action.bucket == prepare.bucket;
    });
    if (gather != plan.actions.end()) {
      prepare.after.push_back(static_cast<int>(gather - plan.actions.begin()));
    }
    prepares.emplace(first_reader(plan, plan.bucket_layers.at(bucket)), std::move(prepare));
  }
  insert_for_readers(plan, std::move(prepares));
}

void add_step(Plan& plan) {
  PlanAction step;
  step.kind = PlanAction::Step;
  std::set<int> sending;
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    const PlanAction& action = plan.actions[i];
    if (action.kind == PlanAction::Reduce) step.after.push_back(static_cast<int>(i));
    if (!action.sends.empty()) sending.insert(static_cast<int>(i));
    for (const int exchange : action.released) sending.erase(exchange);
  }
  step.released.assign(sending.begin(), sending.end());
  plan.actions.push_back(std::move(step));
}

}  // namespace tessera
