#include "kernel/planner/predicted_trace.hpp"

#include "kernel/graph/graph_plan.hpp"

namespace tessera {

namespace {

TracedStep traced(const Representative& of, const std::vector<Span>& actions) {
  TracedStep step;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Span& span = actions[i];
    step.times.push_back({span.start, span.start + of.actions[i].arrival, span.end});
  }
  if (of.graphs.whole_step && !actions.empty()) {
    step.replay = Span{actions.front().start, actions.back().end};
  }
  return step;
}

}  // namespace

std::string predicted_trace(const Prediction& prediction) {
  std::vector<std::string> events;
  i64 first = -1;
  for (const Representative& of : prediction.classes) {
    if (of.of.context != prediction.timeline_context) continue;
    if (first < 0) first = of.of.first;
    const std::size_t index = events.size();
    TracedRank rank;
    rank.rank = of.of.first;
    rank.name = fmt::format("rank {}, pp {}", of.of.first, index);
    rank.pipeline = first;
    rank.stage_of_rank = static_cast<int>(index);
    const std::vector<Span>& actions = prediction.timeline.actions[index];
    events.push_back(
        trace_events(rank, of.plan, traced(of, actions), {traced_replays(of.plan), of.readbacks}));
  }
  return trace_file(events);
}

}  // namespace tessera
