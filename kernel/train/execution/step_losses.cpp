#include "kernel/train/execution/step_losses.hpp"

#include <algorithm>

#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

Tensor allocate(Device& device, const Shape& shape, DType dtype) {
  return Tensor::allocate(
      device, device.pool(), device.stream(), shape, dtype, Category::communication);
}

}  // namespace

StepLosses::StepLosses(const ModelParts& parts, i64 history_steps, Device& device)
    : terms_(static_cast<i64>(parts.losses().size())),
      metrics_(static_cast<i64>(parts.metrics().size())),
      capacity_(history_steps),
      device_(device) {
  if (terms_ == 0) fail_config("the model declares no loss: there is nothing to train");
  inverse_weights_ = allocate(device, {terms_}, DType::fp64);
  values_ = allocate(device, {terms_ + metrics_}, DType::fp64);
  history_ = allocate(device, {capacity_, terms_ + metrics_}, DType::fp64);
  scalar_history_ = allocate(device, {capacity_, step_scalar::kCount}, DType::fp64);
}

Tensor StepLosses::inverse_weight(LossTerm term) {
  return inverse_weights_.slice(0, term.index, 1);
}

void StepLosses::accumulate(Context& cx, int index, const Tensor& scalar) {
  const Tensor sum = value(index);
  AddArgs args{sum.arg(), scalar.arg(), sum.arg()};
  ops::run(cx, args);
}

void StepLosses::add_loss(Context& cx, LossTerm term, const Tensor& scalar) {
  accumulate(cx, term.index, scalar);
}

void StepLosses::report(Context& cx, Metric metric, const Tensor& scalar) {
  accumulate(cx, static_cast<int>(terms_) + metric.index, scalar);
}

void StepLosses::begin(Context& cx, const Tensor& weights, ProcessGroup& data) {
  data.all_reduce(*cx.stream, weights, ReduceOp::sum, "loss weights").wait(*cx.stream);
  clear(cx);
  ReciprocalArgs invert{weights.slice(0, 0, terms_).arg(), inverse_weights_.arg()};
  ops::run(cx, invert);
}

void StepLosses::clear(Context& cx) {
  for (const Tensor& tensor : {inverse_weights_, values_}) {
    FillArgs zero{tensor.arg(), 0};
    ops::run(cx, zero);
  }
}

void StepLosses::keep(Context& cx, const Tensor& scalars) {
  require(!full(), "the history of losses is full: flush it");
  CopyArgs values{values_.arg(), history_.slice(0, rows_, 1).view(values_.shape()).arg()};
  ops::run(cx, values);
  ++rows_;
  if (!scalars.defined()) return;
  CopyArgs row{scalars.arg(), scalar_history_.slice(0, rows_ - 1, 1).view(scalars.shape()).arg()};
  ops::run(cx, row);
}

double StepLosses::now(Context& cx, const Mesh& mesh) {
  if (!sums_.defined()) sums_ = allocate(device_, {terms_}, DType::fp64);
  CopyArgs copy{values_.slice(0, 0, terms_).arg(), sums_.arg()};
  ops::run(cx, copy);
  for (ProcessGroup* group : {&mesh.data_context(), &mesh.group(Axis::pipeline)}) {
    group->all_reduce(*cx.stream, sums_, ReduceOp::sum, "loss of this step").wait(*cx.stream);
  }
  std::vector<double> terms(static_cast<std::size_t>(terms_));
  device_.read(sums_, terms.data());
  double loss = 0;
  for (const double term : terms) loss += term;
  return loss;
}

std::vector<StepLosses::Row> StepLosses::flush(Context& cx, const Mesh& mesh) {
  if (rows_ == 0) return {};
  const Tensor used = history_.slice(0, 0, rows_);
  for (ProcessGroup* group : {&mesh.data_context(), &mesh.group(Axis::pipeline)}) {
    group->all_reduce(*cx.stream, used, ReduceOp::sum, "losses").wait(*cx.stream);
  }
  const auto n = static_cast<std::size_t>(rows_);
  const auto width = static_cast<std::size_t>(terms_ + metrics_);
  std::vector<double> values(n * width), scalars(n * step_scalar::kCount);
  device_.read(used, values.data());
  device_.read(scalar_history_.slice(0, 0, rows_), scalars.data());
  std::vector<Row> rows(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double* at = values.data() + i * width;
    for (i64 term = 0; term < terms_; ++term) rows[i].loss += at[term];
    rows[i].metrics.assign(at + terms_, at + width);
    const double* s = scalars.data() + i * step_scalar::kCount;
    rows[i].scalars.assign(s, s + step_scalar::kCount);
  }
  rows_ = 0;
  return rows;
}

}  // namespace tessera
