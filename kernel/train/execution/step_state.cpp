#include "kernel/train/execution/step_state.hpp"

#include <limits>

#include "kernel/model/host_values.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

LossScaling scaling_of(const PrecisionSection& precision) {
  if (!precision.scales_loss() || precision.loss_scale) return {};
  return {.window = precision.loss_scale_window,
          .growth = precision.loss_scale_growth,
          .backoff = precision.loss_scale_backoff,
          .least = precision.loss_scale_min,
          .hysteresis = precision.loss_scale_hysteresis};
}

// The first step's.
double loss_scale_of(const PrecisionSection& precision) {
  if (!precision.scales_loss()) return 1;
  return precision.loss_scale.value_or(precision.loss_scale_start);
}

}  // namespace

StepState::StepState(const RunSetup& setup,
                     const ModelParts& parts,
                     const Mesh& mesh,
                     Device& device)
    : device_(device),
      precision_(setup.config->precision),
      scaling_(scaling_of(precision_)),
      rates_(*setup.lr, setup.config->run.steps, device),
      scalars_(Tensor::allocate(device,
                                device.pool(),
                                device.stream(),
                                {step_scalar::kCount},
                                DType::fp64,
                                Category::optimizer)),
      statistics_(parts, mesh, device) {
  for (Arrival& arrival : arrivals_) {
    arrival.scalars = device.host_block(step_scalar::kCount * dtype_size(DType::fp64));
  }
  set(0, 0);
}

i64 StepState::updates() const {
  return static_cast<i64>(read_values(device_, scalars_)[step_scalar::kSteps]);
}

std::optional<StoredLossScale> StepState::loss_scale() const {
  if (scaling_.window == 0) return {};
  const std::vector<double> values = read_values(device_, scalars_);
  return StoredLossScale{values[step_scalar::kLossScale],
                         static_cast<i64>(values[step_scalar::kCleanSteps]),
                         static_cast<i64>(values[step_scalar::kHysteresis])};
}

void StepState::set(i64 steps, i64 updates, const std::optional<StoredLossScale>& scale) {
  steps_ = steps;
  updates_known_ = updates;
  rates_.start(updates);
  std::vector<double> values(step_scalar::kCount, 0.0);
  values[step_scalar::kSteps] = static_cast<double>(updates);
  // A step that is skipped keeps it.
  if (updates > 0) values[step_scalar::kLearningRate] = rates_.of(updates);
  const StoredLossScale initial{loss_scale_of(precision_), 0, scaling_.hysteresis};
  const StoredLossScale& start = scale && scaling_.window > 0 ? *scale : initial;
  values[step_scalar::kLossScale] = start.scale;
  values[step_scalar::kCleanSteps] = static_cast<double>(start.clean_steps);
  values[step_scalar::kHysteresis] = static_cast<double>(start.hysteresis);
  device_.write(scalars_, values.data());
  for (Arrival& arrival : arrivals_) arrival.arrived = {};  // of steps that do not count any more
}

Event StepState::begin(Context& cx) {
  rates_.cover(updates_known_);
  return cx.device->record(*cx.stream, Timing::yes);
}

FoundInf StepState::found_inf() const {
  double sum = 0, scale = 0;
  device_.read(statistics_.sum_squares(), &sum);
  device_.read(scalar(step_scalar::kLossScale), &scale);
  return scaling_.found_inf(sum, scale);
}

void StepState::refuse(Context& cx) const {
  ops::run(cx, FillArgs{statistics_.sum_squares().arg(), std::numeric_limits<double>::infinity()});
}

void StepState::decide(Context& cx, double clip) const {
  StepScalarsArgs args{
      statistics_.sum_squares().arg(), rates_.tensor().arg(), scalars_.arg(), clip, scaling_};
  ops::run(cx, args);
  ops::run(cx, CopyArgs{statistics_.stop().arg(), scalar(step_scalar::kStop).arg()});
}

void StepState::end(Context& cx, const Event& begun) {
  Arrival& mine = arrival_of(steps_);
  cx.device->copy_to_host(*cx.stream, scalars_, mine.scalars);
  mine.arrived = cx.device->record(*cx.stream, Timing::yes);
  timings_.emplace_back(begun, mine.arrived);
  ++steps_;
  read(arrival_of(steps_));
}

void StepState::pass_over() {
  // Reads as a step does; the next one then finds no statistics of this one.
  read(arrival_of(steps_ + 1));
  arrival_of(steps_).arrived = {};
  ++steps_;
}

void StepState::read(const Arrival& of) {
  if (!of.arrived.state) return;  // of no step
  device_.join(of.arrived, kNoDeadline, "the statistics of the step before");
  const auto scalars = of.scalars.as<double>(step_scalar::kCount);
  stopping_ |= scalars[step_scalar::kStop] > 0;
  updates_known_ = static_cast<i64>(scalars[step_scalar::kSteps]);
}

std::vector<double> StepState::seconds() {
  std::vector<double> seconds;
  for (const auto& [begun, arrived] : std::exchange(timings_, {})) {
    seconds.push_back(device_.elapsed(begun, arrived));
  }
  return seconds;
}

}  // namespace tessera
