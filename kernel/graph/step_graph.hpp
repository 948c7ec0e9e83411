#pragma once
#include <functional>
#include <memory>

#include "kernel/graph/lifetimes.hpp"
#include "kernel/graph/slot_pool.hpp"
#include "sdk/src/shared/arena.hpp"
#include "tessera/context.hpp"
#include "tessera/device/device.hpp"

namespace tessera {

/// One graph of a whole training step, and the memory that the step runs in. A step that is
/// launched as it is and one that is replayed use the same addresses, so the first step warms the
/// capture up and is a step like any other: there is no trace to remove.
class StepGraph {
 public:
  using Step = std::function<void(Context&)>;

  /// Takes the memory from the context's device. `asked`: what the step asks its pool for, from
  /// empty to empty, as a LifetimeRecorder saw it on a dry rank.
  StepGraph(const Context& cx, Lifetimes asked);
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// Runs the step in the graph's memory. Throws Error where it asks for something else, or keeps
  /// memory. What an error leaves of a step must go before this object does.
  void run(Context cx, const Step& step);
  /// Records the step without running it; once, after run(). What changes between steps lies at
  /// fixed addresses on the device.
  void capture(const Context& cx, const Step& step);
  bool captured() const { return graph_ != nullptr; }
  void replay(const Context& cx);
  i64 bytes() const { return arena_.bytes(); }

 private:
  Lifetimes asked_;
  Arena arena_;
  std::unique_ptr<SlotPool> pool_;  // of the last run()
  std::unique_ptr<Graph> graph_;
};

}  // namespace tessera
