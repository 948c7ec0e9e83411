#include "kernel/schedule/reductions.hpp"

#include <algorithm>
#include <map>
#include <set>

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

// Inserts each reduction after the last action that it waits for, and after the exchange that sends
// the same action's gradients on: the neighbour waits for it. Indices of actions move along.
void insert(Plan& plan, const std::vector<std::vector<int>>& waits) {
  std::multimap<int, int> at;  // bucket by the action that it follows
  for (std::size_t bucket = 0; bucket < waits.size(); ++bucket) {
    int behind = waits[bucket].back();
    const auto next = static_cast<std::size_t>(behind) + 1;
    if (next < plan.actions.size() && plan.actions[next].kind == PlanAction::Exchange &&
        std::ranges::find(plan.actions[next].after, behind) != plan.actions[next].after.end()) {
      ++behind;
    }
    at.emplace(behind, static_cast<int>(bucket));
  }
  std::vector<PlanAction> merged;
  std::vector<int> moved;
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    moved.push_back(static_cast<int>(merged.size()));
    merged.push_back(std::move(plan.actions[i]));
    for (auto* list : {&merged.back().after, &merged.back().released}) {
      for (int& index : *list) index = moved[static_cast<std::size_t>(index)];
    }
    const auto [begin, end] = at.equal_range(static_cast<int>(i));
    for (auto entry = begin; entry != end; ++entry) {
      PlanAction reduce;
      reduce.kind = PlanAction::Reduce;
      reduce.bucket = entry->second;
      for (const int index : waits[static_cast<std::size_t>(reduce.bucket)]) {
        reduce.after.push_back(moved[static_cast<std::size_t>(index)]);
      }
      merged.push_back(std::move(reduce));
    }
  }
  plan.actions = std::move(merged);
}

}  // namespace

void add_reductions(Plan& plan) {
  std::vector<std::vector<int>> waits;
  for (const std::vector<int>& layers : plan.bucket_layers) {
    waits.push_back(completes(plan, layers));
    require(
        !waits.back().empty(), "no backward action completes gradient bucket {}", waits.size() - 1);
  }
  insert(plan, waits);
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
