#pragma once
#include <functional>
#include <span>
#include <vector>

#include "kernel/schedule/orders.hpp"
#include "tessera/plan.hpp"

namespace tessera {

struct Span {
  double start = 0, end = 0;
};

/// When everything of one step happens, in the unit of the costs it was played with.
struct Timeline {
  /// One compute action; of a plan, neighbouring phases of one. `again`: what an F computed is
  /// computed again, for the backward that follows (recomputation).
  struct Block {
    Action action;
    Span span;
    bool again = false;
  };
  std::vector<std::vector<Block>> blocks;  ///< by rank, in launch order
  /// A Gather or Reduce, which runs concurrently with compute, or a Prepare, which does not.
  struct Overlapped {
    PlanAction::Kind kind = PlanAction::Gather;
    int bucket = 0;
    Span span;
    /// Time hidden behind other work: the rank computes, or waits for something else as well. 0 for
    /// Prepare.
    double hidden = 0;
  };
  std::vector<std::vector<Overlapped>> overlapped;  ///< by rank, in launch order; of plans
  /// Rows that a phase that starts an exchange has on their way, up to the work of the phase that
  /// reads them.
  struct UnderWay {
    bool forward = true;
    Span span;
  };
  std::vector<std::vector<UnderWay>> under_way;  ///< by rank, in launch order; of plans
  std::vector<std::vector<Span>>
      actions;  ///< by rank and action; an Exchange ends when it is posted
  /// By rank: sum of its compute actions, and of the Prepares after the first of them.
  std::vector<double> busy;
  double makespan = 0;
  /// Most microbatches of each chunk that were live at once, by rank and chunk.
  std::vector<std::vector<int>> live(const PipelineShape& shape) const;
  /// The bubble, wherever one is named: the share of their time that ranks wait, of the time
  /// between the first compute action of any rank and the end of the last. Recomputation is no
  /// waiting.
  double bubble() const;
};

/// Units of Qi et al. 2023: F 1, B 2, each half 1.
double unit_cost(int rank, const Action& action);
using ActionCost = std::function<double(int rank, const Action& action)>;

/// Plays all ranks' orders with messages that take no time. Throws Error naming the first rank and
/// action that is repeated, missing to another, or never starts.
Timeline play(const Orders& orders, const ActionCost& cost = unit_cost);

/// What the actions and messages of plans take. Functions that may be empty say so.
struct PlanCosts {
  /// Cost of F … Recompute, Gather … Step on that rank; for an Exchange, the time to post it.
  std::function<double(int rank, const Plan& plan, const PlanAction& action)> action;
  /// The part of that cost before the action's own work, while it waits for an exchange that a
  /// phase has started. May be empty: nothing.
  std::function<double(int rank, const Plan& plan, const PlanAction& action)> arrival = {};
  /// The time of a message from `rank`; messages of one directed pair follow each other.
  std::function<double(int rank, const PlanAction::Message& message)> message;
  /// false: a send ends when it is posted, its value waits at the receiver.
  bool rendezvous = true;
  /// A rank's exchanges complete one after the other, in launch order, as on one device stream.
  bool one_stream = false;
};
/// unit_cost, divided evenly over the phases of a chunk. All other actions cost nothing.
PlanCosts unit_costs();

/// Plays the lowered plans of all pipeline ranks. Compute and Prepare are in launch order; Gather
/// and Reduce run concurrently with them, one at a time. A reader waits for what its Exchange
/// receives, and for nothing else; sends are waited for where they are released. Throws Error
/// naming rank, index and text of the first action that never starts.
Timeline play(std::span<const Plan> plans, const PlanCosts& costs);

}  // namespace tessera
