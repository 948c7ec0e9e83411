#pragma once
#include <optional>
#include <vector>

#include "kernel/graph/step_graph.hpp"
#include "kernel/train/execution/action_observer.hpp"
#include "kernel/train/execution/model_graphs.hpp"

namespace tessera {

/// The graphs that a rank's steps replay, as [graph] chose: those of ranges of phases, one of the
/// whole step, or none.
class StepReplay {
 public:
  /// What a step does between fixed inputs and fixed results.
  using Body = StepGraph::Step;

  // Call one of these, once, before the first step.

  void prepare_nothing() { prepared_ = true; }
  /// Takes the memory of a whole step, which is captured after the first one. `asked`: what a step
  /// asks its pool for (StepGraph).
  void prepare_whole(const Context& cx, Lifetimes asked);
  /// Captures ranges of phases; see ModelGraphs.
  ModelGraphs& prepare_ranges(PlacedModel& model,
                              const Plan& plan,
                              const Context& cx,
                              const std::vector<SampleReader::Input>& inputs);
  bool prepared() const { return prepared_; }

  /// Are all graphs there that further steps replay?
  bool captured() const { return prepared_ && (!whole_ || whole_->captured()); }
  /// The graphs of ranges; nullptr: there are none.
  const ModelGraphs* ranges() const { return ranges_ ? &*ranges_ : nullptr; }
  /// What [graph] comes to, without launches, which a dry step counts (graph_use_of).
  /// `input_bytes`: of the inputs that a whole step finds at fixed addresses.
  GraphUse use(i64 input_bytes) const;

  /// The next step runs captured ranges both ways, where there are any (ModelGraphs::check_next).
  void check_next();
  /// One step: replays the whole of it and returns true, or runs the body. A step that is observed
  /// is not replayed. The observer is told of a replay.
  bool run(Context& cx, i64 step, bool observed, ActionObserver& observer, const Body& body);
  /// Call after a step that was not observed: captures the whole step, if that is still to be done.
  void capture(const Context& cx, const Body& body);
  /// The step that is replayed as a whole now. It stays where the replay has failed.
  std::optional<i64> replaying() const { return replaying_; }

 private:
  bool prepared_ = false;
  std::optional<StepGraph> whole_;
  std::optional<ModelGraphs> ranges_;
  std::optional<i64> replaying_;
};

}  // namespace tessera
