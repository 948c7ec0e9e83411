// Plays lowered plans of all ranks.
#include <algorithm>
#include <optional>

#include "kernel/schedule/lower.hpp"
#include "kernel/schedule/match.hpp"
#include "kernel/schedule/task_graph.hpp"
#include "kernel/schedule/timeline.hpp"
#include "kernel/schedule/verify.hpp"

namespace tessera {

namespace {

bool is_compute(PlanAction::Kind kind) { return kind <= PlanAction::Recompute; }
bool is_overlapped(PlanAction::Kind kind) {
  return kind == PlanAction::Gather || kind == PlanAction::Reduce;
}

// The time of `span` outside `waits`, which do not overlap.
double hidden_in(const Span& span, const std::vector<Span>& waits) {
  double hidden = span.end - span.start;
  for (const Span& wait : waits) {
    hidden -= std::max(0.0, std::min(span.end, wait.end) - std::max(span.start, wait.start));
  }
  return std::max(0.0, hidden);
}

class PlanPlayer {
 public:
  PlanPlayer(std::span<const Plan> plans, const PlanCosts& costs) : plans_(plans), costs_(costs) {
    const int ranks = static_cast<int>(plans.size());
    for (int rank = 0; rank < ranks; ++rank) add_actions(rank);
    for (const Match& match : match_messages(plans)) {
      const Plan& sender = plans[static_cast<std::size_t>(match.from)];
      const auto& sends = sender.actions[match.sender.action].sends;
      const int transfer = graph_.add(costs.message(match.from, sends[match.sender.message]),
                                      2 * ranks + match.from * ranks + match.to);
      const int sent = task(match.from, match.sender.action);
      const int received = task(match.to, match.receiver.action);
      graph_.after(transfer, sent);
      end_with(match.to, match.receiver.action, transfer, &Ends::received);
      if (!costs.rendezvous) continue;
      graph_.after(transfer, received);
      end_with(match.from, match.sender.action, transfer, &Ends::sent);
    }
    graph_.run();
  }

  Timeline timeline() const {
    require_done();
    Timeline out;
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      out.blocks.emplace_back();
      std::vector<Timeline::Overlapped>& overlapped = out.overlapped.emplace_back();
      std::vector<Span> waits;  // for overlapped work only
      bool computes = false;
      double main_end = 0;
      std::vector<Span>& spans = out.actions.emplace_back();
      double& busy = out.busy.emplace_back(0);
      for (std::size_t i = 0; i < plans_[rank].actions.size(); ++i) {
        const PlanAction& action = plans_[rank].actions[i];
        const int task = tasks_[rank][i];
        const Span span = spans.emplace_back(Span{graph_.start(task), graph_.end(task)});
        out.makespan = std::max(out.makespan, span.end);
        if (action.bucket >= 0) overlapped.push_back({action.kind, action.bucket, span});
        if (!is_overlapped(action.kind)) {
          const double ready = std::max(main_end, ready_but_for_overlapped(rank, action));
          if (ready < span.start) waits.push_back({ready, span.start});
          main_end = span.end;
        }
        if (action.kind == PlanAction::Prepare && computes) busy += span.end - span.start;
        if (!is_compute(action.kind)) continue;
        busy += span.end - span.start;
        computes = true;
        extend(out.blocks.back(), action, span);
      }
      for (Timeline::Overlapped& one : overlapped) {
        if (is_overlapped(one.kind)) one.hidden = hidden_in(one.span, waits);
      }
      out.under_way.push_back(under_way(rank, spans));
    }
    return out;
  }

 private:
  /// Tasks that end with an exchange: its receives, its sends, both; and what its transfers wait
  /// for on a single stream. -1 for other actions.
  struct Ends {
    int received = -1, sent = -1, whole = -1, before = -1;
  };

  int task(int rank, std::size_t action) const {
    return tasks_[static_cast<std::size_t>(rank)][action];
  }
  const Ends& ends(int rank, std::size_t action) const {
    return ends_[static_cast<std::size_t>(rank)][action];
  }

  // When everything has come that the action waits for, without overlapped work.
  double ready_but_for_overlapped(std::size_t rank, const PlanAction& action) const {
    double ready = 0;
    const auto wait_for = [&](int task) { ready = std::max(ready, graph_.end(task)); };
    for (const int before : action.after) {
      const auto b = static_cast<std::size_t>(before);
      if (is_overlapped(plans_[rank].actions[b].kind)) continue;
      wait_for(ends_[rank][b].received >= 0 ? ends_[rank][b].received : tasks_[rank][b]);
    }
    for (const int before : action.released) {
      wait_for(ends_[rank][static_cast<std::size_t>(before)].whole);
    }
    return ready;
  }

  // A transfer is part of one end of an exchange.
  void end_with(int rank, std::size_t action, int transfer, int Ends::*end) {
    const Ends& of = ends(rank, action);
    graph_.after(of.*end, transfer);
    if (of.before >= 0) graph_.after(transfer, of.before);
  }

  void add_actions(int rank) {
    const Plan& plan = plans_[static_cast<std::size_t>(rank)];
    std::vector<int>& tasks = tasks_.emplace_back();
    std::vector<Ends>& ends = ends_.emplace_back();
    int previous = -1, last = -1;  // in launch order; end of the last exchange
    for (const PlanAction& action : plan.actions) {
      const bool overlapped = is_overlapped(action.kind);
      const int task =
          graph_.add(costs_.action(rank, plan, action), 2 * rank + (overlapped ? 1 : 0));
      for (const int before : action.after) {
        const auto b = static_cast<std::size_t>(before);
        graph_.after(task, ends[b].received >= 0 ? ends[b].received : tasks[b]);
      }
      for (const int before : action.released) {
        graph_.after(task, ends[static_cast<std::size_t>(before)].whole);
      }
      // What runs concurrently is launched in its turn.
      if (overlapped && previous >= 0) graph_.after(task, previous);
      if (!overlapped) previous = task;
      tasks.push_back(task);
      ends.emplace_back();
      if (action.kind != PlanAction::Exchange) continue;
      Ends& of = ends.back();
      of = {graph_.add(0), graph_.add(0), graph_.add(0), costs_.one_stream ? last : -1};
      for (int Ends::*end : {&Ends::received, &Ends::sent}) {
        graph_.after(of.*end, task);
        graph_.after(of.whole, of.*end);
      }
      if (of.before >= 0) graph_.after(of.whole, of.before);
      last = of.whole;
    }
  }

  std::vector<Timeline::UnderWay> under_way(std::size_t rank,
                                            const std::vector<Span>& spans) const {
    const Plan& plan = plans_[rank];
    std::vector<Timeline::UnderWay> all;
    for (std::size_t i = 0; i < plan.actions.size(); ++i) {
      if (!leaves_under_way(plan, i)) continue;
      double end = spans[i].end;
      if (const int reader = next_in_pass(plan, i); reader >= 0) {
        const auto at = static_cast<std::size_t>(reader);
        const PlanAction& reads = plan.actions[at];
        const double arrival =
            costs_.arrival ? costs_.arrival(static_cast<int>(rank), plan, reads) : 0;
        end = spans[at].start + arrival;
      }
      all.push_back({plan.actions[i].kind == PlanAction::F, {spans[i].start, end}});
    }
    return all;
  }

  static void extend(std::vector<Timeline::Block>& blocks, const PlanAction& action, Span span) {
    const bool again = action.kind == PlanAction::Recompute;
    const auto kind = again ? Action::F : static_cast<Action::Kind>(action.kind);
    const Action whole{kind, action.microbatch, action.chunk};
    // Phases that waited in between are drawn with their wait.
    const bool goes_on = !blocks.empty() && blocks.back().action == whole &&
                         blocks.back().again == again && blocks.back().span.end == span.start;
    if (goes_on) {
      blocks.back().span.end = span.end;
    } else {
      blocks.push_back({whole, span, again});
    }
  }

  // --- Deadlocks

  std::optional<std::size_t> first_stuck(std::size_t rank) const {
    for (std::size_t i = 0; i < tasks_[rank].size(); ++i) {
      if (!graph_.done(tasks_[rank][i])) return i;
    }
    return std::nullopt;
  }

  void require_done() const {
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      const auto at = first_stuck(rank);
      if (at) reject(plans_[rank], *at, "never starts: " + why(rank, *at));
    }
  }

  std::string why(std::size_t rank, std::size_t at) const {
    for (std::size_t i = 0; i <= at; ++i) {
      const PlanAction& action = plans_[rank].actions[i];
      if (action.kind != PlanAction::Exchange || graph_.done(ends_[rank][i].whole)) continue;
      for (const auto* list : {&action.sends, &action.receives}) {
        for (const PlanAction::Message& message : *list) {
          const auto peer = static_cast<std::size_t>(message.peer);
          const auto other = first_stuck(peer);
          if (!other) continue;
          return fmt::format("it waits for action {} ({}), rank {} waits at action {} ({})",
                             i,
                             plans_[rank].text(action),
                             peer,
                             *other,
                             plans_[peer].text(plans_[peer].actions[*other]));
        }
      }
    }
    return "its dependencies form a circle";
  }

  std::span<const Plan> plans_;
  const PlanCosts& costs_;
  TaskGraph graph_;
  std::vector<std::vector<int>> tasks_;  // by rank and action; an exchange's posts it
  std::vector<std::vector<Ends>> ends_;  // by rank and action
};

}  // namespace

PlanCosts unit_costs() {
  PlanCosts costs;
  costs.action = [](int rank, const Plan& plan, const PlanAction& action) {
    if (action.kind > PlanAction::Bw) return 0.0;
    const auto phases = std::ranges::count(plan.phases, action.chunk, &PhaseInfo::chunk);
    return unit_cost(rank, {static_cast<Action::Kind>(action.kind)}) / static_cast<double>(phases);
  };
  costs.message = [](int, const PlanAction::Message&) { return 0.0; };
  return costs;
}

Timeline play(std::span<const Plan> plans, const PlanCosts& costs) {
  return PlanPlayer(plans, costs).timeline();
}

}  // namespace tessera
