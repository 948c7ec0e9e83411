#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "kernel/train/data/batch_loader.hpp"
#include "kernel/train/execution/executor.hpp"
#include "kernel/train/execution/step_losses.hpp"
#include "kernel/train/gradients/gradient_sync.hpp"
#include "kernel/train/setup/placed_model.hpp"
#include "tessera/optimizer.hpp"

namespace tessera {

/// How a step of a dry run differs from that of a run.
struct StepOptions {
  ActionObserver* observer = nullptr;  ///< outlives the step
  const Pipeline* pipeline = nullptr;  ///< played before, once for many ranks
  int microbatches = 0;                ///< instead of the setup's; 0: the setup's
};

/// One rank's training: gradients, optimizer, scalars, losses, plan and executor. A step at a time;
/// what happens between steps (logging, saving, stopping) is the trainer's.
class TrainStep {
 public:
  /// All three outlive it. Throws ConfigError for what cannot be trained: a loss without a mask in
  /// the data, parameters that the optimizer cannot update.
  TrainStep(const Rank& rank,
            PlacedModel& model,
            const RunSetup& setup,
            const StepOptions& options = {});
  ~TrainStep();
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;

  const Plan& plan() const { return plan_; }
  Optimizer& optimizer() { return *optimizer_; }
  /// Steps done; the data position is steps() × batch.global samples.
  i64 steps() const { return steps_; }
  /// Updates of the parameters: steps() without skipped ones. Waits for the device.
  i64 updates() const;
  /// After a checkpoint was loaded: continues after this step.
  void set_steps(i64 steps, i64 updates);

  /// One training step. `inspect` is called when all gradients are complete, before the update.
  void run(const std::function<void()>& inspect = {});
  /// Values of the steps since the last call, in order. Waits for the device.
  std::vector<StepLosses::Row> losses();
  bool losses_full() const { return losses_->full(); }
  /// Throws Error naming the first parameter that differs between replicas. All ranks call it.
  void check_replicas();

 private:
  void make_optimizer();
  void make_scalars();
  Context context();
  void update(Context& cx);

  const Rank& rank_;
  PlacedModel& model_;
  const RunSetup& setup_;
  int microbatches_;
  GradientSync gradients_;
  BatchLoader loader_;
  std::shared_ptr<Optimizer> optimizer_;
  std::unique_ptr<StepLosses> losses_;
  Tape tape_;
  Tensor scalars_, rates_, sum_squares_, loss_scale_;
  Plan plan_;
  std::unique_ptr<Executor> executor_;
  i64 steps_ = 0;
};

}  // namespace tessera
