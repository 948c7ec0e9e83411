#include "kernel/train/execution/recorder.hpp"

#include <limits>

#include "kernel/graph/graph_plan.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

namespace {

double seconds(Recorder::WallClock::duration span) {
  return std::chrono::duration<double>(span).count();
}

TracedRank traced_rank(const Mesh& mesh) {
  TracedRank of;
  of.rank = mesh.rank();
  of.name = fmt::format("rank {}", mesh.rank());
  for (const Axis axis : {Axis::pipeline, Axis::data, Axis::context, Axis::tensor}) {
    if (mesh.size(axis) == 1) continue;
    of.name += fmt::format(", {} {}", axis_name(axis), mesh.coordinate(axis));
  }
  of.pipeline = mesh.group(Axis::pipeline).members().front();
  of.stage_of_rank = static_cast<int>(mesh.coordinate(Axis::pipeline));
  return of;
}

}  // namespace

Recorder::Recorder(Device& device, const Mesh& mesh, ActionObserver& next)
    : device_(device), mesh_(mesh), next_(next) {}

Event Recorder::mark() { return device_.record(device_.stream(), Timing::yes); }

void Recorder::begin(i64 step) {
  step_ = step;
  marks_.clear();
  memory_.clear();
  memory_.reserve(marks_.capacity());
  first_ = {};
  whole_ = {};
  device_.join(mark(), kNoDeadline, "the step before, to record the next one");
  // Ranks are put side by side by this clock, so the mark that was least held up is the origin.
  constexpr int kTries = 5;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTries; ++i) {
    const auto before = WallClock::now();
    const Event now = mark();
    device_.join(now, kNoDeadline, "a mark, to record a step");
    const double taken = seconds(WallClock::now() - before);
    if (taken >= least) continue;
    least = taken;
    origin_mark_ = now;
    origin_ = seconds(before - zero_) + taken / 2;
  }
}

TracedStep Recorder::end() {
  device_.join(mark(), kNoDeadline, "a step that is recorded");
  TracedStep recorded{.step = *step_, .memory = std::move(memory_)};
  const auto at = [&](const Event& event) {
    return origin_ + device_.elapsed(origin_mark_, event);
  };
  recorded.times.reserve(marks_.size());
  double since = marks_.empty() ? 0 : at(first_);
  for (const Marks& marks : marks_) {
    recorded.times.push_back({since, at(marks.start), at(marks.end)});
    since = recorded.times.back().end;
  }
  if (whole_.end.state) recorded.replay = Span{at(whole_.start), at(whole_.end)};
  step_.reset();
  marks_.clear();
  memory_.clear();
  return recorded;
}

std::string Recorder::events(const Plan& plan,
                             const TracedStep& recorded,
                             const std::vector<TracedReadback>& readbacks) const {
  return trace_events(traced_rank(mesh_), plan, recorded, {traced_replays(plan), readbacks});
}

void Recorder::before(const Plan& plan, const PlanAction& action) {
  next_.before(plan, action);
  if (!step_) return;
  if (marks_.empty()) first_ = mark();
  marks_.emplace_back();
}

void Recorder::ready(const Plan& plan, const PlanAction& action) {
  next_.ready(plan, action);
  if (step_) marks_.back().start = mark();
}

void Recorder::after(const Plan& plan, const PlanAction& action) {
  if (step_) {
    marks_.back().end = mark();
    memory_.push_back(device_.memory().bytes);
  }
  next_.after(plan, action);
}

void Recorder::replaying(i64 step) {
  next_.replaying(step);
  if (step_) whole_.start = mark();
}

void Recorder::replayed() {
  if (step_) whole_.end = mark();
  next_.replayed();
}

void Recorder::failed(const Plan& plan, const PlanAction& action) {
  step_.reset();
  next_.failed(plan, action);
}

}  // namespace tessera
