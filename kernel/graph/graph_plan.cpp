#include "kernel/graph/graph_plan.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "tessera/error.hpp"

namespace tessera {

namespace {

bool is_backward(PlanAction::Kind kind) {
  return kind == PlanAction::B || kind == PlanAction::Bi || kind == PlanAction::Bw;
}

// Follows which microbatches of which chunks are live: from the first action to the last.
class LivePairs {
 public:
  explicit LivePairs(const Plan& plan) : open_(static_cast<std::size_t>(plan.shape.chunks)) {
    for (std::vector<int>& chunk : open_) {
      chunk.resize(static_cast<std::size_t>(plan.shape.microbatches));
    }
  }
  /// Is this the pair's first action?
  bool begins(const PlanAction& action) {
    if (action.kind != PlanAction::F) return false;
    return of(action)++ == 0;
  }
  /// Is it its last one?
  bool ends(const PlanAction& action) {
    if (action.kind != PlanAction::B && action.kind != PlanAction::Bw) return false;
    return --of(action) == 0;
  }

 private:
  int& of(const PlanAction& action) {
    return open_.at(static_cast<std::size_t>(action.chunk))
        .at(static_cast<std::size_t>(action.microbatch));
  }
  std::vector<std::vector<int>> open_;  // phases whose backward is to come, by chunk, microbatch
};

std::string layer_text(const PhaseInfo& phase) {
  return phase.layer < 0 ? "stage" : fmt::format("layer{}", phase.layer);
}

std::string text(const CapturedRange& range) {
  return fmt::format(
      "phases {} to {} of chunk {}", range.first_phase, range.last_phase, range.chunk);
}

}  // namespace

void mark_captured(std::vector<PhaseInfo>& phases, std::span<const CapturedRange> ranges) {
  int graph = 0;
  for (const CapturedRange& range : ranges) {
    int marked = 0;
    for (PhaseInfo& info : phases) {
      const bool inside = info.chunk == range.chunk && info.phase >= range.first_phase &&
                          info.phase <= range.last_phase;
      if (!inside) continue;
      require(info.graph < 0, "a graph policy chose the phase \"{}\" twice", info.scope);
      require(info.shapes == Shapes::fixed,
              "a graph policy chose {}, where the shapes of \"{}\" depend on data",
              text(range),
              info.scope);
      info.graph = graph;
      ++marked;
    }
    require(marked > 0 && marked == range.last_phase - range.first_phase + 1,
            "a graph policy chose {}, which do not exist",
            text(range));
    ++graph;
  }
}

bool has_captured(const Plan& plan) {
  return std::ranges::any_of(plan.phases, [](const PhaseInfo& info) { return info.graph >= 0; });
}

int SlotQueue::take() {
  if (free_.empty()) return count_++;
  const int slot = free_.front();
  free_.pop_front();
  return slot;
}

int GraphPlan::graphs() const {
  int all = 0;
  for (const Segment& segment : segments) all += segment.graphs() * slots_of(segment);
  return all;
}

GraphPlan plan_graphs(const Plan& plan) {
  GraphPlan out;
  const auto chunks = static_cast<std::size_t>(plan.shape.chunks);
  std::vector<bool> captured(chunks), split(chunks);
  for (const PlanAction& action : plan.actions) {
    if (action.kind != PlanAction::Bi) continue;
    const bool captured = plan.phases[static_cast<std::size_t>(action.phase)].graph >= 0;
    if (captured) split[static_cast<std::size_t>(action.chunk)] = true;
  }
  for (int i = 0; i < static_cast<int>(plan.phases.size()); ++i) {
    const PhaseInfo& info = plan.phases[static_cast<std::size_t>(i)];
    if (info.graph < 0) continue;
    const bool next = info.graph == static_cast<int>(out.segments.size());
    if (next) {
      out.segments.push_back({{info.chunk, info.phase, info.phase},
                              i,
                              i,
                              split[static_cast<std::size_t>(info.chunk)],
                              info.recompute});
      captured[static_cast<std::size_t>(info.chunk)] = true;
    }
    Segment& segment = out.segments.back();
    require(next || info.graph + 1 == static_cast<int>(out.segments.size()),
            "captured ranges are not in the order of their phases");
    segment.last = i;
    segment.range.last_phase = info.phase;
  }

  std::vector<SlotQueue> queues(chunks);
  out.of.assign(chunks, std::vector<int>(static_cast<std::size_t>(plan.shape.microbatches), -1));
  LivePairs live(plan);
  int pairs = 0;
  for (const PlanAction& action : plan.actions) {
    const auto chunk = static_cast<std::size_t>(std::max(action.chunk, 0));
    const auto microbatch = static_cast<std::size_t>(std::max(action.microbatch, 0));
    if (live.begins(action)) {
      out.live_pairs = std::max(out.live_pairs, ++pairs);
      if (captured[chunk]) out.of[chunk][microbatch] = queues[chunk].take();
    } else if (live.ends(action)) {
      --pairs;
      if (captured[chunk]) queues[chunk].give_back(out.of[chunk][microbatch]);
    }
  }
  for (const SlotQueue& queue : queues) out.slots.push_back(queue.count());
  return out;
}

Replays replays_of(const Plan& plan, const GraphPlan& graphs, const PlanAction& action) {
  Replays out;
  if (action.kind != PlanAction::F && !is_backward(action.kind)) return out;
  const int graph = plan.phases[static_cast<std::size_t>(action.phase)].graph;
  if (graph < 0) return out;
  out.segment = static_cast<std::size_t>(graph);
  out.slot =
      graphs
          .of[static_cast<std::size_t>(action.chunk)][static_cast<std::size_t>(action.microbatch)];
  const Segment& segment = graphs.segments[out.segment];
  if (action.kind == PlanAction::F) {
    out.count = action.phase == segment.first ? 1 : 0;
    return out;
  }
  if (action.phase != segment.last) return out;
  const int weight = segment.graphs() - (segment.split ? 1 : 0);  // of the weight half
  out.first = action.kind == PlanAction::Bw ? weight : 1;
  const int end = action.kind == PlanAction::Bi ? weight : segment.graphs();
  out.count = end - out.first;
  return out;
}

std::vector<TracedReplay> traced_replays(const Plan& plan) {
  const GraphPlan graphs = plan_graphs(plan);
  std::vector<TracedReplay> all;
  for (std::size_t i = 0; i < plan.actions.size(); ++i) {
    const PlanAction& action = plan.actions[i];
    const Replays replays = replays_of(plan, graphs, action);
    if (replays.count == 0) continue;
    const Segment& segment = graphs.segments[replays.segment];
    const PhaseInfo& first = plan.phases[static_cast<std::size_t>(segment.first)];
    const PhaseInfo& last = plan.phases[static_cast<std::size_t>(segment.last)];
    std::string name = fmt::format("{} {}", layer_text(first), first.scope);
    if (segment.last > segment.first) {
      const bool one = first.layer == last.layer;
      name += fmt::format(" to {}{}", one ? "" : layer_text(last) + " ", last.scope);
    }
    const bool again =
        segment.recompute && action.kind != PlanAction::F && action.kind != PlanAction::Bw;
    all.push_back(
        {static_cast<int>(i),
         fmt::format("{}{} {}", again ? "Recompute " : "", action_name(action.kind), name),
         replays.slot});
  }
  return all;
}

namespace {

// One pass over a plan.
class MemoryPlay {
 public:
  MemoryPlay(const Plan& plan, const GraphPlan& graphs, const SlotMemory& memory, Sent sent)
      : plan_(plan), graphs_(graphs), memory_(memory), sent_(sent), pairs_(plan) {}

  void run() {
    for (std::size_t i = 0; i < plan_.actions.size(); ++i) {
      const PlanAction& action = plan_.actions[i];
      for (const int exchange : action.released) live_.release(message(exchange));
      if (action.kind == PlanAction::Exchange) send(static_cast<int>(i));
      if (action.kind == PlanAction::F || is_backward(action.kind)) compute(action);
    }
  }

 private:
  static std::string message(int exchange) { return fmt::format("exchange {}", exchange); }
  int slot(int chunk, int microbatch) const {
    return graphs_.of[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(microbatch)];
  }

  void compute(const PlanAction& action) {
    const int slot = this->slot(action.chunk, action.microbatch);
    const bool begins = pairs_.begins(action);
    if (slot >= 0 && begins) occupy(action, slot);
    const Replays replays = replays_of(plan_, graphs_, action);
    for (int i = 0; i < replays.count; ++i) {
      const auto graph = static_cast<std::size_t>(replays.first + i);
      live_.replay(memory_(replays.segment, slot)[graph]);
    }
    if (pairs_.ends(action) && slot >= 0) held_.erase({action.chunk, slot});
  }

  void occupy(const PlanAction& action, int slot) {
    const auto [held, is_free] = held_.emplace(std::pair(action.chunk, slot), action.microbatch);
    require(is_free,
            "slot {} of chunk {} takes microbatch {} while microbatch {} is not done",
            slot,
            action.chunk,
            action.microbatch,
            held->second);
  }

  // The tensors that leave a chunk are among what the graph at that end of it keeps.
  void send(int exchange) {
    if (sent_ == Sent::copied) return;
    std::vector<AddressRange> ranges;
    for (const PlanAction::Message& of : plan_.actions[static_cast<std::size_t>(exchange)].sends) {
      const auto stage = std::ranges::find(plan_.stages, of.stage);
      const auto chunk = static_cast<int>(stage - plan_.stages.begin());
      for (std::size_t i = 0; i < graphs_.segments.size(); ++i) {
        const Segment& segment = graphs_.segments[i];
        if (segment.range.chunk != chunk || !at_edge(segment, of.forward)) continue;
        const auto memory = memory_(i, slot(chunk, of.microbatch));
        const std::size_t graph = of.forward ? 0 : segment.recompute ? 2 : 1;
        ranges.insert(ranges.end(), memory[graph].kept.begin(), memory[graph].kept.end());
      }
    }
    live_.send(message(exchange), std::move(ranges));
  }

  bool at_edge(const Segment& segment, bool forward) const {
    if (!forward) return segment.range.first_phase == 0;
    const auto next = static_cast<std::size_t>(segment.last) + 1;
    return next == plan_.phases.size() || plan_.phases[next].chunk != segment.range.chunk;
  }

  const Plan& plan_;
  const GraphPlan& graphs_;
  const SlotMemory& memory_;
  Sent sent_;
  LivePairs pairs_;
  LiveMemory live_;
  std::map<std::pair<int, int>, int> held_;  // microbatch by chunk and slot
};

}  // namespace

void check_memory(const Plan& plan, const GraphPlan& graphs, const SlotMemory& memory, Sent sent) {
  MemoryPlay(plan, graphs, memory, sent).run();
}

}  // namespace tessera
