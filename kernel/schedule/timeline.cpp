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
  OrderPlayer(const Orders& orders, const ActionCost& cost)
      : orders_(orders), tasks_(orders.owners.size() * 3 * microbatches(), kNone) {
    for (int rank = 0; rank < orders.shape.ranks; ++rank) {
      first_.push_back(static_cast<int>(actions_.size()));
      for (const Action& action : orders.by_rank[static_cast<std::size_t>(rank)]) {
        int& task = task_of(key_of(rank, action));
        require(task == kNone,
                "the schedule of pipeline rank {} lists {} twice",
                rank,
                text_of(action));
        task = graph_.add(cost(rank, action), rank);
        actions_.push_back({rank, &action});
      }
    }
    never_ = graph_.add(0);
    graph_.after(never_, never_);
  }

  Timeline play() {
    for (std::size_t i = 0; i < actions_.size(); ++i) {
      for (const Key& before : needs(actions_[i].rank, *actions_[i].action)) {
        const int task = task_of(before);
        graph_.after(begin_of(static_cast<int>(i)), task == kNone ? never_ : end_of(task));
      }
    }
    graph_.run();
    const bool all = std::ranges::all_of(
        actions_, [&, task = 0](const Listed&) mutable { return graph_.done(task++); });
    if (!all) explain();
    return timeline();
  }

 private:
  static constexpr int kNone = -1;
  struct Key {
    Pass pass;
    int microbatch, stage;
  };
  struct Listed {
    int rank;
    const Action* action;
  };

  std::size_t microbatches() const { return static_cast<std::size_t>(orders_.shape.microbatches); }
  int& task_of(const Key& key) {
    const auto stage = static_cast<std::size_t>(key.stage);
    return tasks_[(stage * 3 + key.pass) * microbatches() +
                  static_cast<std::size_t>(key.microbatch)];
  }

  // Actions of a pair start and end together.
  int begin_of(int task) const {
    return task - index(task) +
           static_cast<int>(
               orders_.pair_begin(rank_of(task), static_cast<std::size_t>(index(task))));
  }
  int end_of(int task) const {
    return task - index(task) +
           static_cast<int>(orders_.pair_end(rank_of(task), static_cast<std::size_t>(index(task))));
  }
  std::size_t rank_of(int task) const { return static_cast<std::size_t>(at(task).rank); }

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
    const auto ranks = static_cast<std::size_t>(orders_.shape.ranks);
    out.blocks.resize(ranks);
    out.actions.resize(ranks);
    out.busy.resize(ranks);
    for (std::size_t i = 0; i < actions_.size(); ++i) {
      const auto rank = static_cast<std::size_t>(actions_[i].rank);
      const int task = static_cast<int>(i);
      const Span span{graph_.start(task), graph_.end(task)};
      out.blocks[rank].push_back({*actions_[i].action, span});
      out.actions[rank].push_back(span);
      out.busy[rank] += span.end - span.start;
      out.makespan = std::max(out.makespan, span.end);
    }
    return out;
  }

  // --- Explains why the play does not end: names the rank that made the mistake where there is
  // one, and not the first rank that suffers from it.

  [[noreturn]] void explain() {
    int stuck = kNone;
    for (std::size_t i = 0; i < actions_.size(); ++i) {
      const int task = static_cast<int>(i);
      if (graph_.done(task)) continue;
      if (stuck == kNone) stuck = task;
      for (const Key& key : needs(actions_[i].rank, *actions_[i].action)) {
        if (task_of(key) == kNone) fail_missing(task, key);
        if (actions_[static_cast<std::size_t>(task_of(key))].rank == actions_[i].rank &&
            task_of(key) > task) {
          fail(
              "the schedule of pipeline rank {} is out of order: action {} needs {}, which is "
              "action {}",
              actions_[i].rank,
              text(task),
              text_of(*actions_[static_cast<std::size_t>(task_of(key))].action),
              index(task_of(key)));
        }
      }
    }
    for (const Key& key : needs(at(stuck).rank, *at(stuck).action)) {
      if (graph_.done(task_of(key))) continue;
      fail(
          "the schedule deadlocks: pipeline rank {} stops at action {}: it waits for the {} of "
          "microbatch {} on stage {}, which never comes",
          at(stuck).rank,
          text(stuck),
          kPasses[key.pass],
          key.microbatch,
          key.stage);
    }
    fail(
        "the schedule deadlocks: pipeline rank {} stops at action {}", at(stuck).rank, text(stuck));
  }

  [[noreturn]] void fail_missing(int task, const Key& key) const {
    const Orders::Owner owner = orders_.owners[static_cast<std::size_t>(key.stage)];
    fail(
        "the schedule of pipeline rank {} never lists the {} of microbatch {} of chunk {}; "
        "pipeline rank {} needs it for action {}",
        owner.rank,
        kPasses[key.pass],
        key.microbatch,
        owner.chunk,
        at(task).rank,
        text(task));
  }

  static constexpr std::string_view kPasses[] = {"forward", "backward", "weight half"};
  const Listed& at(int task) const { return actions_[static_cast<std::size_t>(task)]; }
  int index(int task) const { return task - first_[static_cast<std::size_t>(at(task).rank)]; }
  /// "3 (B mb0 chunk0)", counted on its rank.
  std::string text(int task) const {
    return fmt::format("{} ({})", index(task), text_of(*at(task).action));
  }

  const Orders& orders_;
  TaskGraph graph_;
  std::vector<Listed> actions_;  // by task
  std::vector<int> first_;       // task of each rank
  std::vector<int> tasks_;       // by stage, pass and microbatch
  int never_ = 0;
};

}  // namespace

double Timeline::bubble() const {
  double first = makespan, last = 0;
  for (const std::vector<Block>& rank : blocks) {
    for (const Block& block : rank) {
      first = std::min(first, block.span.start);
      last = std::max(last, block.span.end);
    }
  }
  const double all = (last - first) * static_cast<double>(busy.size());
  const double computing = std::accumulate(busy.begin(), busy.end(), 0.0);
  return all > 0 ? std::max(0.0, (all - computing) / all) : 0;
}

std::vector<std::vector<int>> Timeline::live(const PipelineShape& shape) const {
  std::vector<std::vector<int>> peaks;
  for (const std::vector<Block>& rank : blocks) {
    // A pass may be in several blocks and halves: a forward begins with its first one, a backward
    // ends with its last.
    std::vector<Action> actions;
    std::map<std::tuple<bool, int, int>, std::size_t> counted;
    const auto key = [](const Action& action) {
      return std::tuple(action.kind == Action::F, action.microbatch, action.chunk);
    };
    for (std::size_t i = 0; i < rank.size(); ++i) {
      if (rank[i].again) continue;
      const auto [entry, first] = counted.emplace(key(rank[i].action), i);
      if (!first && rank[i].action.kind != Action::F) entry->second = i;
    }
    for (std::size_t i = 0; i < rank.size(); ++i) {
      Action action = rank[i].action;
      if (rank[i].again || counted.at(key(action)) != i) continue;
      if (action.kind != Action::F) action.kind = Action::B;
      actions.push_back(action);
    }
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
