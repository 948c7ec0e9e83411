#include "kernel/plan/predicted_trace.hpp"

#include "kernel/schedule/trace.hpp"

namespace tessera {

std::string predicted_trace(const Prediction& prediction) {
  std::vector<std::string> events;
  i64 first = -1;
  for (const Representative& of : prediction.classes) {
    if (of.of.context != prediction.timeline_context) continue;
    if (first < 0) first = of.of.first;
    std::vector<ActionTimes> times;
    const std::size_t index = events.size();
    for (const Span& span : prediction.timeline.actions[index]) {
      times.push_back({span.start, span.start, span.end});
    }
    TracedRank rank;
    rank.rank = of.of.first;
    rank.name = fmt::format("rank {}, pp {}", of.of.first, index);
    rank.pipeline = first;
    rank.stage_of_rank = static_cast<int>(index);
    events.push_back(trace_events(rank, of.plan, times));
  }
  return trace_file(events);
}

}  // namespace tessera
