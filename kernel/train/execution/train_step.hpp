#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernel/checkpoint/index.hpp"
#include "kernel/graph/step_graph.hpp"
#include "kernel/train/data/step_inputs.hpp"
#include "kernel/train/execution/executor.hpp"
#include "kernel/train/execution/model_graphs.hpp"
#include "kernel/train/execution/rate_table.hpp"
#include "kernel/train/execution/step_losses.hpp"
#include "kernel/train/gradients/gradient_sync.hpp"
#include "kernel/train/setup/placed_model.hpp"
#include "tessera/ops/update.hpp"
#include "tessera/optimizer.hpp"

namespace tessera {

/// How a step of a dry run differs from that of a run.
struct StepOptions {
  ActionObserver* observer = nullptr;  ///< outlives the step
  const Pipeline* pipeline = nullptr;  ///< played before, once for many ranks
  const Plan* plan = nullptr;          ///< of an equal rank
  int microbatches = 0;                ///< instead of the setup's; 0: the setup's
  int room = 0;                        ///< microbatches that its inputs' memory is for; 0: as many
  bool locate_errors = false;          ///< of the rule: say where the configuration chose it
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

  /// Before the first step, on all ranks: captures the phases that [graph] says, which leaves no
  /// trace in any value, or takes the memory of a whole step that is captured after the first one.
  /// run() does it where nobody has.
  void prepare();
  /// Phases that are captured, since prepare(); nullptr: none.
  const ModelGraphs* graphs() const { return graphs_.get(); }
  /// Are all graphs there that further steps replay?
  bool captured() const { return prepared_ && (whole_ == nullptr || whole_->captured()); }
  /// What [graph] comes to, since prepare(), without launches, which a dry step counts
  /// (graph_use_of).
  GraphUse graph_use() const;

  const Plan& plan() const { return plan_; }
  /// The plan's actions that read integers back, with those that wait for them. Runs a microbatch
  /// on a dry rank where there are such phases.
  std::vector<TracedReadback> readbacks() const { return readbacks(plan_); }
  /// The same of a plan of the same phases with other microbatches.
  std::vector<TracedReadback> readbacks(const Plan& plan) const;
  /// What its plan was made with.
  BucketUse bucket_use() const;
  Optimizer& optimizer() { return *optimizer_; }
  const GradientSync& gradients() const { return gradients_; }
  /// The step that is replayed as a whole now. It stays where the replay has failed.
  std::optional<i64> replaying() const { return replaying_; }
  /// Steps done; the data position is steps() × batch.global samples.
  i64 steps() const { return steps_; }
  /// Updates of the parameters: steps() without skipped ones. Waits for the device.
  i64 updates() const;
  /// Where the loss scale stands; none where it does not move. Waits for the device.
  std::optional<StoredLossScale> loss_scale() const;
  /// After a checkpoint was loaded: continues after this step. A loss scale that moves begins as
  /// configured where none is given.
  void set_steps(i64 steps, i64 updates, const std::optional<StoredLossScale>& scale = {});

  /// One training step. `inspect` is called when all gradients are complete, before the update. The
  /// host reads nothing from the device but the statistics of the step before, which have arrived
  /// or are waited for, so that it is at most a step ahead.
  ///
  /// Where [graph] captures whole steps, the first one is launched as it is and the others are
  /// replayed, but for those that someone inspects or observes. The bits are the same.
  void run(const std::function<void()>& inspect = {});
  /// The same for an observer that has to be told of every action: not replayed as a whole.
  void run_observed();
  /// Passes over one step: its samples count as consumed, nothing is computed.
  void pass_over();
  using Refuse = std::function<bool(double loss, FoundInf gradients)>;
  /// From now on `refuse` is asked of each step's loss and gradients before the update: true leaves
  /// the update out, as where gradients are not finite. All ranks must answer alike. The host waits
  /// for it. Under `[check] on_bad_step = "skip"` a step is asked from the first one on, and
  /// nothing is refused until `refuse` says what.
  void refuse_if(Refuse refuse) { refuse_ = std::move(refuse); }
  /// Asks all ranks to stop: the request travels with the next step's statistics.
  void request_stop() { stop_requested_ = true; }
  /// True on every rank after the same step, once any rank's request has come around: after the
  /// second step that began after it.
  bool stopping() const { return stopping_; }
  /// Values of the steps since the last call, in order, and the time that each took on the device.
  /// Waits for the device.
  std::vector<StepLosses::Row> losses();
  bool losses_full() const { return losses_->full(); }
  /// Between steps a rank may hold old values of parameters that others update. Afterwards all are
  /// new: for whatever reads parameters there. All ranks call it.
  void gather_parameters();
  /// After parameters were written, by a step or between steps, on all ranks: the others have old
  /// values of what this rank updates, and prepared weights are old.
  void parameters_changed();
  /// Throws Error naming the first parameter that differs between replicas. All ranks call it.
  void check_replicas();

 private:
  static void require_elements(const UpdateRule& rule, const std::string& where);
  void make_optimizer(bool locate_errors);
  void make_scalars();
  Context context();
  Lifetimes dry_requests() const;
  void advance(const std::function<void()>& inspect, bool observed);
  void replay_whole(Context& cx);
  void compute(Context& cx, const std::function<void()>& inspect);
  void add_experts(Context& cx, const Tensor& experts, const Tensor& sum_squares) const;
  FoundInf found_inf(const Tensor& sum_squares) const;
  void update(Context& cx);
  /// A step's scalars on the host, and when they are there.
  struct Arrival {
    HostBlock scalars;
    Event arrived;
  };
  void read_statistics(const Arrival& of);

  const Rank& rank_;
  PlacedModel& model_;
  const RunSetup& setup_;
  StepOptions options_;  // of a dry step like this one
  int microbatches_;
  std::unique_ptr<StepGraph> whole_;  // outlives whatever holds memory of a step
  GradientSync gradients_;
  StepInputs inputs_;
  std::shared_ptr<Optimizer> optimizer_;
  std::unique_ptr<StepLosses> losses_;
  Tensor scalars_, loss_scale_;
  LossScaling scaling_;
  std::unique_ptr<RateTable> rates_;
  i64 updates_known_ = 0;  // as the host has read them: at most one more is under way
  // fp64 [3]: requests to stop, sums of squares of the gradients of dense parameters and of experts
  Tensor statistics_;
  bool has_experts_ = false;
  // Statistics of the last two steps.
  std::array<Arrival, 2> arrivals_;
  std::vector<std::pair<Event, Event>> timings_;  // of steps that losses() has not returned yet
  Refuse refuse_;
  bool stop_requested_ = false, stopping_ = false;
  Plan plan_;
  std::unique_ptr<ModelGraphs> graphs_;
  Tape tape_;  // after a step that failed it holds tensors of the graphs' memory
  std::unique_ptr<Executor> executor_;
  bool prepared_ = false;
  i64 steps_ = 0;
  std::optional<i64> replaying_;
};

/// Runs a step of a dry rank and says what it replays. All zero but the launches where nothing is
/// captured.
GraphUse graph_use_of(TrainStep& step, const Rank& dry);

}  // namespace tessera
