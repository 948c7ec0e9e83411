#include "kernel/planner/meter.hpp"

#include <algorithm>

#include "kernel/planner/collective_seconds.hpp"

#include "tessera/base/collective.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

namespace {

bool starts_collectives(PlanAction::Kind kind) {
  return kind == PlanAction::Reduce || kind == PlanAction::Gather || kind == PlanAction::Exchange;
}

}  // namespace

void StepMeter::begin_step() {
  actions_.clear();
  prologue_ = current_ = {};
  in_action_ = planned_ = false;
  compute_ = 0;
  comm_.fill(0);
  ends_.clear();
}

void StepMeter::before(const Plan&, const PlanAction& action) {
  close();
  in_action_ = true;
  planned_ = starts_collectives(action.kind);
}

void StepMeter::close() {
  current_.seconds += compute_;
  (in_action_ ? actions_.emplace_back() : prologue_) = current_;
  current_ = {};
  // What is still under way goes on during the next action.
  for (auto& [id, end] : ends_) end -= compute_;
  for (double& lane : comm_) lane = std::max(0.0, lane - compute_);
  compute_ = 0;
}

void StepMeter::launched(const Kernel& kernel, const void* args, bool replayed) {
  const Effort effort = kernel.effort(args);
  current_.flops += effort.flops;
  current_.bytes += effort.total_bytes();
  ++current_.launches;
  compute_ += seconds_of(effort, hardware_, {.tf32 = kernel.tf32, .replayed = replayed});
}

void StepMeter::started(u64 id, const GroupSpec& group, const Collective& collective) {
  const double seconds = collective_seconds(hardware_, group.members, group.index, collective);
  current_.collectives += seconds;
  if (planned_) {
    current_.sent += timed_bytes(hardware_, collective.sends);
    current_.seconds += seconds;
    return;
  }
  current_.inside += seconds;
  double& lane = comm_[static_cast<std::size_t>(group.lane)];
  lane = std::max(lane, compute_) + seconds;
  ends_[id] = lane;
}

void StepMeter::waited(u64 id) {
  const auto found = ends_.find(id);
  if (found == ends_.end()) return;
  current_.waited += std::max(0.0, found->second - compute_);
  compute_ = std::max(compute_, found->second);
  ends_.erase(found);
}

StepMeter::Cost StepMeter::total(const Cost& prologue, const std::vector<Cost>& actions) {
  Cost sum = prologue;
  for (const Cost& cost : actions) {
    sum.seconds += cost.seconds;
    sum.collectives += cost.collectives;
    sum.inside += cost.inside;
    sum.waited += cost.waited;
    sum.flops += cost.flops;
    sum.bytes += cost.bytes;
    sum.launches += cost.launches;
  }
  return sum;
}

}  // namespace tessera
