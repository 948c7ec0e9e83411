#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "kernel/train/data/step_inputs.hpp"
#include "kernel/train/execution/executor.hpp"
#include "kernel/train/execution/step_losses.hpp"
#include "kernel/train/execution/step_replay.hpp"
#include "kernel/train/execution/step_state.hpp"
#include "kernel/train/gradients/gradient_sync.hpp"
#include "kernel/train/setup/placed_model.hpp"
#include "tessera/optimizer.hpp"

namespace tessera {

/// One rank's training steps: inputs, plan, executor, gradients, losses and optimizer. What happens
/// between steps (logging, saving, stopping) is the trainer's.
class TrainStep {
 public:
  /// The model outlives it. Throws ConfigError for what cannot be trained: a loss without a mask in
  /// the data, parameters that the optimizer cannot update.
  explicit TrainStep(PlacedModel& model);
  /// Takes a plan of fewer microbatches, for a dry rank. The memory of its inputs is that of all.
  TrainStep(PlacedModel& model, Plan plan);
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;

  /// Told of each action from now on, those of the dry step of prepare() too; outlives the step.
  void observe(ActionObserver& observer) { executor_.observe(observer); }
  /// Call before the first step, on all ranks: captures the phases that [graph] says, which leaves
  /// no trace in any value, or takes the memory of a whole step that is captured after the first
  /// one. run() does it where nobody has.
  void prepare();

  /// One training step. `inspect` is called when all gradients are complete, before the update. The
  /// host reads nothing from the device but the statistics of the step before, which have arrived
  /// or are waited for, so that it is at most a step ahead.
  ///
  /// Where [graph] captures whole steps, the first one is launched as it is and the others are
  /// replayed, but for those that someone inspects or observes. The bits are the same.
  void run(const std::function<void()>& inspect = {}) { advance(inspect, bool(inspect)); }
  /// The same for an observer that has to be told of every action: not replayed as a whole.
  void run_observed() { advance({}, true); }
  using Refuse = std::function<bool(double loss, FoundInf gradients)>;
  /// From now on `refuse` is asked of each step's loss and gradients before the update: true leaves
  /// the update out, as where gradients are not finite. All ranks must answer alike. The host waits
  /// for it. Under `[check] on_bad_step = "skip"` a step is asked from the first one on, and
  /// nothing is refused until `refuse` says what.
  void refuse_if(Refuse refuse) { refuse_ = std::move(refuse); }
  /// Values of the steps since the last call, in order, and the time that each took on the device.
  /// Waits for the device.
  std::vector<StepLosses::Row> losses();
  bool losses_full() const { return losses_.full(); }

  /// Brings parameters up to date that other ranks update: between steps this rank may hold old
  /// values. Call it before reading parameters there, on all ranks.
  void gather_parameters();
  /// Call after parameters were written, by a step or between steps, on all ranks: other ranks'
  /// values of what this rank updates are old then, and so are prepared weights.
  void parameters_changed();
  /// Throws Error naming the first parameter that differs between replicas. All ranks call it.
  void check_replicas();

  StepState& state() { return state_; }
  const StepState& state() const { return state_; }
  const StepReplay& replay() const { return replay_; }
  Optimizer& optimizer() { return *optimizer_; }
  const GradientSync& gradients() const { return gradients_; }
  const Plan& plan() const { return plan_; }
  /// What [graph] comes to, since prepare() (StepReplay::use).
  GraphUse graph_use() const { return replay_.use(inputs_.bytes()); }
  /// The actions of a plan of these phases that read integers back, with those that wait for them.
  /// Runs a microbatch on a dry rank where there are such phases.
  std::vector<TracedReadback> readbacks(const Plan& plan) const;

 private:
  Context context();
  Lifetimes dry_requests() const;
  void advance(const std::function<void()>& inspect, bool observed);
  void upload(Context& cx);
  void compute(Context& cx, const std::function<void()>& inspect);
  void update(Context& cx);

  PlacedModel& model_;
  const Plan plan_;
  StepReplay replay_;  // outlives whatever holds memory of a step
  GradientSync gradients_;
  StepInputs inputs_;
  StepLosses losses_;
  std::shared_ptr<Optimizer> optimizer_;
  StepState state_;
  Refuse refuse_;
  Tape tape_;  // after a step that failed it holds tensors of the graphs' memory
  Executor executor_;
};

/// Runs a step of a dry rank and says what it replays. All zero but the launches where nothing is
/// captured.
GraphUse graph_use_of(TrainStep& step, const Rank& dry);

}  // namespace tessera
