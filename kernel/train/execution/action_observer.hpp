#pragma once
#include "tessera/plan.hpp"

namespace tessera {

/// Watches an executor. Called on the rank's thread, for each action of each plan that it runs.
class ActionObserver {
 public:
  virtual ~ActionObserver() = default;
  virtual void before(const Plan&, const PlanAction&) {}
  /// Called when what the action waits for has come, before its own work.
  virtual void ready(const Plan&, const PlanAction&) {}
  /// Called once it is done.
  virtual void after(const Plan&, const PlanAction&) {}
  /// Called in the catch block of an action that threw: may throw something better.
  virtual void failed(const Plan&, const PlanAction&) {}

  /// Called around the replay of a whole step (graph/step_graph), whose actions are not told.
  virtual void replaying(i64 /*step*/) {}
  virtual void replayed() {}
};

}  // namespace tessera
