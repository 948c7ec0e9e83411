#pragma once
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "kernel/checkpoint/index.hpp"
#include "kernel/train/execution/rate_table.hpp"
#include "kernel/train/execution/step_statistics.hpp"
#include "kernel/train/setup/run_setup.hpp"
#include "tessera/ops/update.hpp"

namespace tessera {

/// Where a training stands, its parameters and the optimizer's state aside: steps and updates done,
/// loss scale, norm and learning rate. The last four are the step's scalars on the device, which
/// one operation decides from sums over the ranks. The host reads them one step later.
class StepState {
 public:
  /// Setup and mesh outlive it.
  StepState(const RunSetup& setup, const ModelParts& parts, const Mesh& mesh, Device& device);

  /// Steps done; the data position is steps() × batch.global samples.
  i64 steps() const { return steps_; }
  /// Updates of the parameters: steps() without skipped ones. Waits for the device.
  i64 updates() const;
  /// Where the loss scale stands; none where it does not move. Waits for the device.
  std::optional<StoredLossScale> loss_scale() const;
  /// Call after a checkpoint was loaded: continues after this step. A loss scale that moves begins
  /// as configured where none is given.
  void set(i64 steps, i64 updates, const std::optional<StoredLossScale>& scale = {});

  /// Asks all ranks to stop: the request travels with the next step's statistics.
  void request_stop() { stop_requested_ = true; }
  bool stop_requested() const { return stop_requested_; }
  /// True on every rank after the same step, once any rank's request has come around: after the
  /// second step that began after it.
  bool stopping() const { return stopping_; }

  /// fp64 [step_scalar::kCount], and one of them.
  const Tensor& scalars() const { return scalars_; }
  Tensor scalar(i64 index) const { return scalars_.slice(0, index, 1); }

  // One step, in this order.

  /// Has the learning rates that the step may need. Returns the moment on the device.
  Event begin(Context& cx);
  /// Called when all gradients are summed: StepStatistics::sum.
  void sum(Context& cx, Optimizer& optimizer, const Tensor& stop_requests) const {
    statistics_.sum(cx, optimizer, stop_requests);
  }
  /// What decide() will find of these gradients. Waits for the device.
  FoundInf found_inf() const;
  /// Makes decide() leave the update out, as where gradients are not finite.
  void refuse(Context& cx) const;
  /// Decides norm, clipping, learning rate, loss scale, and whether there is an update.
  void decide(Context& cx, double clip) const;
  /// Starts to copy the scalars to the host and waits for those of the step before.
  void end(Context& cx, const Event& begun);

  /// Passes over one step instead: its samples count as consumed, nothing is computed.
  void pass_over();
  /// How long each step since the last call took on the device, which has done them.
  std::vector<double> seconds();

 private:
  /// A step's scalars on the host, and when they are there.
  struct Arrival {
    HostBlock scalars;
    Event arrived;
  };
  Arrival& arrival_of(i64 step) { return arrivals_[static_cast<std::size_t>(step % 2)]; }
  void read(const Arrival& of);

  Device& device_;
  const PrecisionSection& precision_;
  const LossScaling scaling_;
  RateTable rates_;
  Tensor scalars_;
  StepStatistics statistics_;
  std::array<Arrival, 2> arrivals_;               // of the last two steps
  std::vector<std::pair<Event, Event>> timings_;  // of steps that seconds() has not returned yet
  i64 updates_known_ = 0;  // as the host has read them: at most one more is under way
  bool stop_requested_ = false, stopping_ = false;
  i64 steps_ = 0;
};

}  // namespace tessera
