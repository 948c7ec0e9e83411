#include "kernel/train/execution/step_losses.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

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

StepLosses::Columns StepLosses::columns_of(const ModelParts& parts, const Mesh& mesh) {
  if (parts.losses().empty()) {
    fail_config("the model declares no loss: there is nothing to train");
  }
  Columns columns;
  const auto partial = [](const auto& info) { return has(info.partial, Axis::tensor); };
  const bool over_tensor =
      mesh.size(Axis::tensor) > 1 &&
      (std::ranges::any_of(parts.losses(), partial) ||
       std::ranges::any_of(parts.metrics(), partial) || !parts.counts().empty());
  columns.groups = {&mesh.data_context(), &mesh.group(Axis::pipeline)};
  if (over_tensor) columns.groups.push_back(&mesh.group(Axis::tensor));
  // Along an axis that is not partial all ranks have the same value: the first one's counts.
  const auto counts_here = [&](const std::vector<Axis>& axes) {
    return std::ranges::all_of(std::array{Axis::tensor, Axis::context, Axis::data}, [&](Axis axis) {
      const bool reduced = axis != Axis::tensor || over_tensor;
      return !reduced || has(axes, axis) || mesh.first(axis);
    });
  };
  for (const ModelParts::LossInfo& loss : parts.losses()) {
    columns.terms.push_back(
        {loss.metric, columns.sums++, counts_here(loss.partial), loss.auxiliary});
  }
  for (const ModelParts::MetricInfo& metric : parts.metrics()) {
    const bool peak = metric.reduce == MetricReduce::max;
    Column column{metric.name, peak ? columns.peaks++ : columns.sums++};
    column.mine = counts_here(metric.partial);
    column.reduce = metric.reduce;
    if (metric.reduce == MetricReduce::mean) column.counts = columns.sums++;
    columns.metrics.push_back(std::move(column));
  }
  return columns;
}

StepLosses::StepLosses(const ModelParts& parts, i64 history_steps, const Mesh& mesh, Device& device)
    : StepLosses(parts, history_steps, device, columns_of(parts, mesh)) {}

StepLosses::StepLosses(const ModelParts& parts, i64 history_steps, Device& device, Columns columns)
    : device_(device),
      terms_(std::move(columns.terms)),
      metrics_(std::move(columns.metrics)),
      counts_(parts.counts(), device),
      history_(device,
               history_steps,
               columns.sums + counts_.width(),
               columns.peaks,
               std::move(columns.groups)),
      inverse_weights_(doubles(device, {static_cast<i64>(terms_.size())})),
      sums_(doubles(device, {columns.sums})),
      one_(doubles(device, {1})) {
  const double one = 1;
  device.write(one_, &one);
  if (columns.peaks > 0) peaks_ = doubles(device, {columns.peaks});
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
  if (!peaks_.defined()) return;
  FillArgs lowest{peaks_.arg(), -std::numeric_limits<double>::infinity()};
  ops::run(cx, lowest);
}

void StepLosses::keep(Context& cx, const Tensor& scalars) {
  history_.append(cx, {sums_, counts_.values()}, peaks_, scalars);
}

double StepLosses::now(Context& cx) {
  const auto terms = static_cast<i64>(terms_.size());
  if (!now_.defined()) now_ = doubles(device_, {terms});
  CopyArgs copy{sums_.slice(0, 0, terms).arg(), now_.arg()};
  ops::run(cx, copy);
  history_.reduce(cx, now_, ReduceOp::sum, "loss of this step");
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
  counts_.add_metrics(sums + sums_.dim(0), row.metrics, row.by_layer);
  const auto own = static_cast<std::ptrdiff_t>(row.metrics.size());
  const bool several = std::ranges::count(terms_, false, &Column::auxiliary) > 1;
  for (const Column& term : terms_) {
    if (!term.auxiliary) {
      row.loss += sums[term.index];
      if (several) row.metrics.emplace_back(term.name, sums[term.index]);
      continue;
    }
    const auto shown = std::ranges::find(
        row.metrics.begin() + own, row.metrics.end(), term.name, &Row::Metric::first);
    if (shown != row.metrics.end()) {
      shown->second += sums[term.index];
    } else {
      row.metrics.emplace_back(term.name, sums[term.index]);
    }
  }
  return row;
}

std::vector<StepLosses::Row> StepLosses::flush(Context& cx) {
  const LossHistory::Rows values = history_.take(cx);
  const auto at = [&](const std::vector<double>& all, i64 row) {
    return all.data() + row * static_cast<i64>(all.size()) / values.count;
  };
  std::vector<Row> rows;
  for (i64 i = 0; i < values.count; ++i) {
    rows.push_back(row_of(at(values.sums, i), at(values.peaks, i), at(values.scalars, i)));
  }
  return rows;
}

}  // namespace tessera
