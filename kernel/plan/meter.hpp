#pragma once
#include <map>
#include <string>
#include <vector>

#include "kernel/plan/effort.hpp"
#include "kernel/train/execution/action_observer.hpp"
#include "tessera/plan.hpp"

namespace tessera {

/// What a step of one rank does and how long that takes on the hardware: launches on a compute
/// lane, collectives on a comm lane beside it, each behind what was launched before it; a wait
/// joins the two. Fed by a meta device, a simulated communicator and an executor.
///
/// Collectives that the plan starts as actions of their own (Reduce, Gather, Exchange) are kept out
/// of the lanes: when they run and what they hold up is the timeline's to find.
class StepMeter final : public ActionObserver {
 public:
  struct Cost {
    double seconds = 0;      ///< of an action of the comm lane: its collectives'
    double collectives = 0;  ///< seconds in them, also where compute hides them
    double sent = 0;         ///< bytes of an Exchange's sends, as they are timed
    double flops = 0, bytes = 0;
    i64 launches = 0;
  };

  explicit StepMeter(const Hardware& hardware) : hardware_(hardware) {}

  void begin_step();
  void before(const Plan& plan, const PlanAction& action) override;
  void launched(const Kernel& kernel, const void* args);
  void started(u64 id, const GroupSpec& group, const Collective& collective);
  void waited(u64 id);
  /// Behind the last action.
  void end_step() { close(); }

  /// By index in the plan.
  const std::vector<Cost>& actions() const { return actions_; }
  /// What is no action: before the first one.
  const Cost& prologue() const { return prologue_; }
  Cost total() const;

 private:
  void close();

  const Hardware& hardware_;
  std::vector<Cost> actions_;
  Cost prologue_;
  Cost current_;
  bool in_action_ = false, planned_ = false;
  double compute_ = 0, comm_ = 0;  // when each lane is free, from the start of the action
  std::map<u64, double> ends_;     // of collectives on the comm lane that nobody waited for
};

}  // namespace tessera
