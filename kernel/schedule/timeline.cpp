#include "kernel/schedule/timeline.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "kernel/schedule/task_graph.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

enum Pass { forward, input, weight };  // what a B does is an input pass to others

Pass pass_of(const Action& action) {
  return action.kind == Action::F ? forward : action.kind == Action::Bw ? weight : input;
}

class OrderPlayer {
 public:
  OrderPlayer(const Orders& orders, const ActionCost& cost) : orders_(orders) {
    for (int rank = 0; rank < orders.shape.stages; ++rank) {
      for (const Action& action : orders.by_rank[static_cast<std::size_t>(rank)]) {
        const int task = graph_.add(cost(rank, action), rank);
        const bool first = index_.emplace(key_of(rank, action), task).second;
        require(first, "the schedule of pipeline rank {} lists {} twice", rank, text_of(action));
      }
    }
    never_ = graph_.add(0);
    graph_.after(never_, never_);
  }

  Timeline play() {
    int task = 0;
    for (int rank = 0; rank < orders_.shape.stages; ++rank) {
      for (const Action& action : orders_.by_rank[static_cast<std::size_t>(rank)]) {
        for (const Key& before : needs(rank, action)) {
          const auto found = index_.find(before);
          graph_.after(task, found == index_.end() ? never_ : found->second);
        }
        ++task;
      }
    }
    graph_.run();
    return timeline();
  }

 private:
  using Key = std::tuple<Pass, int, int>;  // microbatch, stage

  Key key_of(int rank, const Action& action) const {
    return {pass_of(action), action.microbatch, orders_.stage(rank, action.chunk)};
  }

  std::vector<Key> needs(int rank, const Action& action) const {
    const auto [pass, microbatch, stage] = key_of(rank, action);
    if (pass == weight) return {{input, microbatch, stage}};
    std::vector<Key> keys;
    if (pass == input) keys.push_back({forward, microbatch, stage});
    const int neighbour = pass == forward ? stage - 1 : stage + 1;
    if (neighbour >= 0 && neighbour <= orders_.last_stage()) {
      keys.push_back({pass, microbatch, neighbour});
    }
    return keys;
  }

  Timeline timeline() const {
    Timeline out;
    int task = 0;
    for (int rank = 0; rank < orders_.shape.stages; ++rank) {
      out.blocks.emplace_back();
      out.actions.emplace_back();
      out.busy.push_back(0);
      int index = 0;
      for (const Action& action : orders_.by_rank[static_cast<std::size_t>(rank)]) {
        if (!graph_.done(task)) stuck(rank, index, action);
        const Span span{graph_.start(task), graph_.end(task)};
        out.blocks.back().push_back({action, span});
        out.actions.back().push_back(span);
        out.busy.back() += span.end - span.start;
        out.makespan = std::max(out.makespan, span.end);
        ++task, ++index;
      }
    }
    return out;
  }

  [[noreturn]] void stuck(int rank, int index, const Action& action) const {
    constexpr std::string_view kPasses[] = {"forward", "backward", "weight half"};
    std::string why = "it waits for itself";
    for (const Key& key : needs(rank, action)) {
      const auto [pass, microbatch, stage] = key;
      const auto found = index_.find(key);
      if (found != index_.end() && graph_.done(found->second)) continue;
      why = fmt::format("it waits for the {} of microbatch {} on stage {}, which {}",
                        kPasses[pass],
                        microbatch,
                        stage,
                        found == index_.end() ? "no rank lists" : "never comes");
      break;
    }
    fail("the schedule deadlocks: pipeline rank {} stops at action {} ({}): {}",
         rank,
         index,
         text_of(action),
         why);
  }

  const Orders& orders_;
  TaskGraph graph_;
  std::map<Key, int> index_;
  int never_ = 0;
};

}  // namespace

double Timeline::bubble() const {
  const double all = makespan * static_cast<double>(busy.size());
  return all > 0 ? (all - std::accumulate(busy.begin(), busy.end(), 0.0)) / all : 0;
}

std::vector<std::vector<int>> Timeline::live(const PipelineShape& shape) const {
  std::vector<std::vector<int>> peaks;
  for (const std::vector<Block>& rank : blocks) {
    std::vector<Action> actions;
    actions.reserve(rank.size());
    for (const Block& block : rank) actions.push_back(block.action);
    peaks.emplace_back();
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      peaks.back().push_back(live_peak(actions, chunk, shape.training));
    }
  }
  return peaks;
}

double unit_cost(int, const Action& action) { return action.kind == Action::B ? 2 : 1; }

Timeline play(const Orders& orders, const ActionCost& cost) {
  return OrderPlayer(orders, cost).play();
}

}  // namespace tessera
