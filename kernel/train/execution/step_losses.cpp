#include "kernel/train/execution/step_losses.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

Tensor doubles(Device& device, const Shape& shape) {
  return Tensor::allocate(
      device, device.pool(), device.stream(), shape, DType::fp64, Category::communication);
}

bool has(const std::vector<Axis>& axes, Axis axis) {
  return std::ranges::find(axes, axis) != axes.end();
}

}  // namespace

StepLosses::StepLosses(const ModelParts& parts, i64 history_steps, const Mesh& mesh, Device& device)
    : capacity_(history_steps), device_(device), counts_(parts.counts(), device) {
  if (parts.losses().empty()) {
    fail_config("the model declares no loss: there is nothing to train");
  }
  const auto over_tensor = [](const auto& info) { return has(info.partial, Axis::tensor); };
  over_tensor_ = mesh.size(Axis::tensor) > 1 &&
                 (std::ranges::any_of(parts.losses(), over_tensor) ||
                  std::ranges::any_of(parts.metrics(), over_tensor) || !parts.counts().empty());
  groups_ = {&mesh.data_context(), &mesh.group(Axis::pipeline)};
  if (over_tensor_) groups_.push_back(&mesh.group(Axis::tensor));
  for (const ModelParts::LossInfo& loss : parts.losses()) {
    terms_.push_back({loss.name, sums_width_++, counts_here(loss.partial, mesh), loss.auxiliary});
  }
  for (const ModelParts::MetricInfo& metric : parts.metrics()) {
    const bool peak = metric.reduce == MetricReduce::max;
    Column column{metric.name, peak ? peaks_width_++ : sums_width_++};
    column.mine = counts_here(metric.partial, mesh);
    column.reduce = metric.reduce;
    if (metric.reduce == MetricReduce::mean) column.counts = sums_width_++;
    metrics_.push_back(std::move(column));
  }
  inverse_weights_ = doubles(device, {static_cast<i64>(terms_.size())});
  sums_ = doubles(device, {sums_width_});
  sums_history_ = doubles(device, {capacity_, sums_width_ + counts_.width()});
  scalar_history_ = doubles(device, {capacity_, step_scalar::kCount});
  one_ = doubles(device, {1});
  const double one = 1;
  device.write(one_, &one);
  if (peaks_width_ == 0) return;
  peaks_ = doubles(device, {peaks_width_});
  peaks_history_ = doubles(device, {capacity_, peaks_width_});
}

// Along an axis that is not partial all ranks have the same value: the first one's counts.
bool StepLosses::counts_here(const std::vector<Axis>& partial, const Mesh& mesh) const {
  return std::ranges::all_of(std::array{Axis::tensor, Axis::context, Axis::data}, [&](Axis axis) {
    const bool reduced = axis != Axis::tensor || over_tensor_;
    return !reduced || has(partial, axis) || mesh.first(axis);
  });
}

Tensor StepLosses::inverse_weight(LossTerm term) {
  return inverse_weights_.slice(0, term.index, 1);
}

void StepLosses::add(Context& cx, i64 column, const Tensor& scalar) {
  const Tensor sum = sums_.slice(0, column, 1);
  AddArgs args{sum.arg(), scalar.arg(), sum.arg()};
  ops::run(cx, args);
}

void StepLosses::add_loss(Context& cx, LossTerm term, const Tensor& scalar) {
  const Column& column = terms_.at(static_cast<std::size_t>(term.index));
  if (column.mine) add(cx, column.index, scalar);
}

void StepLosses::report(Context& cx, Metric metric, const Tensor& scalar) {
  const Column& column = metrics_.at(static_cast<std::size_t>(metric.index));
  if (!column.mine) return;
  if (column.reduce == MetricReduce::max) {
    const Tensor peak = peaks_.slice(0, column.index, 1);
    MaximumArgs args{peak.arg(), scalar.arg(), peak.arg()};
    ops::run(cx, args);
    return;
  }
  add(cx, column.index, scalar);
  if (column.reduce == MetricReduce::mean) add(cx, column.counts, one_);
}

void StepLosses::begin(Context& cx, const Tensor& weights, ProcessGroup& data) {
  data.all_reduce(*cx.stream, weights, ReduceOp::sum, "loss weights").wait(*cx.stream);
  clear(cx);
  ReciprocalArgs invert{weights.slice(0, 0, inverse_weights_.dim(0)).arg(), inverse_weights_.arg()};
  ops::run(cx, invert);
}

void StepLosses::clear(Context& cx) {
  for (const Tensor& tensor : {inverse_weights_, sums_}) {
    FillArgs zero{tensor.arg(), 0};
    ops::run(cx, zero);
  }
  counts_.clear(cx);
  if (peaks_width_ == 0) return;
  FillArgs lowest{peaks_.arg(), -std::numeric_limits<double>::infinity()};
  ops::run(cx, lowest);
}

void StepLosses::keep(Context& cx, const Tensor& scalars) {
  require(!full(), "the history of losses is full: flush it");
  const auto append = [&](const Tensor& values, const Tensor& history, i64 column = 0) {
    if (!values.defined()) return;
    const Tensor row = history.slice(0, rows_, 1).view({history.dim(1)});
    CopyArgs copy{values.arg(), row.slice(0, column, values.dim(0)).arg()};
    ops::run(cx, copy);
  };
  append(sums_, sums_history_);
  append(counts_.values(), sums_history_, sums_width_);
  append(peaks_, peaks_history_);
  append(scalars, scalar_history_);
  ++rows_;
}

void StepLosses::reduce(Context& cx,
                        const Tensor& values,
                        ReduceOp op,
                        std::string_view name) const {
  for (ProcessGroup* group : groups_) {
    group->all_reduce(*cx.stream, values, op, name).wait(*cx.stream);
  }
}

double StepLosses::now(Context& cx) {
  const auto terms = static_cast<i64>(terms_.size());
  if (!now_.defined()) now_ = doubles(device_, {terms});
  CopyArgs copy{sums_.slice(0, 0, terms).arg(), now_.arg()};
  ops::run(cx, copy);
  reduce(cx, now_, ReduceOp::sum, "loss of this step");
  std::vector<double> values(terms_.size());
  device_.read(now_, values.data());
  double loss = 0;
  for (std::size_t term = 0; term < terms_.size(); ++term) {
    if (!terms_[term].auxiliary) loss += values[term];
  }
  return loss;
}

StepLosses::Row StepLosses::row_of(const double* sums,
                                   const double* peaks,
                                   const double* scalars) const {
  Row row;
  row.scalars.assign(scalars, scalars + step_scalar::kCount);
  for (const Column& metric : metrics_) {
    if (metric.reduce == MetricReduce::max) {
      const double peak = peaks[metric.index];
      if (peak != -std::numeric_limits<double>::infinity()) {
        row.metrics.emplace_back(metric.name, peak);
      }
      continue;
    }
    const double count = metric.reduce == MetricReduce::mean ? sums[metric.counts] : 1;
    if (count > 0) row.metrics.emplace_back(metric.name, sums[metric.index] / count);
  }
  counts_.add_metrics(sums + sums_width_, row.metrics, row.by_layer);
  for (const Column& term : terms_) {
    if (term.auxiliary) {
      row.metrics.emplace_back(term.name, sums[term.index]);
    } else {
      row.loss += sums[term.index];
    }
  }
  return row;
}

std::vector<StepLosses::Row> StepLosses::flush(Context& cx) {
  if (rows_ == 0) return {};
  const auto n = static_cast<std::size_t>(rows_);
  const auto read = [&](const Tensor& history, i64 width) {
    std::vector<double> values(n * static_cast<std::size_t>(width));
    if (width > 0) device_.read(history.slice(0, 0, rows_), values.data());
    return values;
  };
  reduce(cx, sums_history_.slice(0, 0, rows_), ReduceOp::sum, "losses");
  if (peaks_width_ > 0) {
    reduce(cx, peaks_history_.slice(0, 0, rows_), ReduceOp::max, "largest values of metrics");
  }
  const i64 width = sums_width_ + counts_.width();
  const std::vector<double> sums = read(sums_history_, width);
  const std::vector<double> peaks = read(peaks_history_, peaks_width_);
  const std::vector<double> scalars = read(scalar_history_, step_scalar::kCount);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < n; ++i) {
    rows.push_back(row_of(sums.data() + i * static_cast<std::size_t>(width),
                          peaks.data() + i * static_cast<std::size_t>(peaks_width_),
                          scalars.data() + i * step_scalar::kCount));
  }
  rows_ = 0;
  return rows;
}

}  // namespace tessera
