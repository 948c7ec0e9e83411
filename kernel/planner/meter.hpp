#pragma once
#include <array>
#include <map>
#include <string>
#include <vector>

#include "kernel/planner/effort.hpp"
#include "kernel/train/execution/action_observer.hpp"
#include "tessera/base/collective.hpp"
#include "tessera/plan.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

/// What a step of one rank does and how long that takes on the hardware: launches on the compute
/// stream, collectives on the communication stream of their group's lane, each after what was
/// launched there before it; a wait joins the two. Fed by a meta device, a simulated communicator
/// and an executor.
///
/// Collectives that the plan starts as actions of their own (Reduce, Gather, Exchange) are kept out
/// of the streams: the timeline finds out when they run and what waits for them.
class StepMeter final : public ActionObserver {
 public:
  struct Cost {
    double seconds = 0;      ///< of an action that starts collectives: theirs
    double collectives = 0;  ///< seconds in them, also where compute hides them
    double inside = 0;       ///< of `collectives`, those that phases start
    double waited = 0;       ///< seconds that phases wait for them; the rest is hidden
    double arrival = 0;      ///< of `seconds`, before the action's own work
    double sent = 0;         ///< bytes of an Exchange's sends, as they are timed
    double flops = 0, bytes = 0;
    i64 launches = 0;
    bool operator==(const Cost&) const = default;
  };

  explicit StepMeter(const Hardware& hardware) : hardware_(hardware) {}

  void begin_step();
  void before(const Plan& plan, const PlanAction& action) override;
  void ready(const Plan&, const PlanAction&) override { current_.arrival = compute_; }
  /// `replayed`: by a graph.
  void launched(const Kernel& kernel, const void* args, bool replayed = false);
  /// A graph begins.
  void graph_begins() { compute_ += hardware_.graph_latency; }
  void started(u64 id, const GroupSpec& group, const Collective& collective);
  void waited(u64 id);
  /// Call after the last action.
  void end_step() { close(); }

  /// By index in the plan.
  const std::vector<Cost>& actions() const { return actions_; }
  /// Costs before the first action.
  const Cost& prologue() const { return prologue_; }
  /// The sum of a step's.
  static Cost total(const Cost& prologue, const std::vector<Cost>& actions);

 private:
  void close();

  const Hardware& hardware_;
  std::vector<Cost> actions_;
  Cost prologue_;
  Cost current_;
  bool in_action_ = false, planned_ = false;
  double compute_ = 0;                        // when the stream is free, from the action's start
  std::array<double, kCommLanes> comm_ = {};  // the same, by lane
  std::map<u64, double> ends_;                // of collectives that nobody has waited for
};

}  // namespace tessera
