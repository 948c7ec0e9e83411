#include "kernel/train/execution/loss_history.hpp"

#include <utility>

#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

LossHistory::LossHistory(
    Device& device, i64 steps, i64 sums, i64 peaks, std::vector<ProcessGroup*> groups)
    : groups_(std::move(groups)) {
  const auto allocate = [&](i64 width) {
    return Tensor::allocate(device,
                            device.pool(),
                            device.stream(),
                            {steps, width},
                            DType::fp64,
                            Category::communication);
  };
  sums_ = allocate(sums);
  scalars_ = allocate(step_scalar::kCount);
  if (peaks > 0) peaks_ = allocate(peaks);
}

void LossHistory::append(Context& cx,
                         std::initializer_list<Tensor> sums,
                         const Tensor& peaks,
                         const Tensor& scalars) {
  require(!full(), "the history of losses is full: flush it");
  const auto copy = [&](const Tensor& values, const Tensor& history, i64 column) {
    if (!values.defined()) return;
    const Tensor row = history.slice(0, rows_, 1).view({history.dim(1)});
    ops::run(cx, CopyArgs{values.arg(), row.slice(0, column, values.dim(0)).arg()});
  };
  i64 column = 0;
  for (const Tensor& values : sums) {
    copy(values, sums_, column);
    if (values.defined()) column += values.dim(0);
  }
  copy(peaks, peaks_, 0);
  copy(scalars, scalars_, 0);
  ++rows_;
}

void LossHistory::reduce(Context& cx,
                         const Tensor& values,
                         ReduceOp op,
                         std::string_view name) const {
  for (ProcessGroup* group : groups_) {
    group->all_reduce(*cx.stream, values, op, name).wait(*cx.stream);
  }
}

LossHistory::Rows LossHistory::take(Context& cx) {
  Rows rows;
  rows.count = std::exchange(rows_, 0);
  if (rows.count == 0) return rows;
  const auto filled = [&](const Tensor& history) { return history.slice(0, 0, rows.count); };
  reduce(cx, filled(sums_), ReduceOp::sum, "losses");
  if (peaks_.defined()) {
    reduce(cx, filled(peaks_), ReduceOp::max, "largest values of metrics");
  }
  const auto read = [&](const Tensor& history) {
    std::vector<double> values;
    if (!history.defined()) return values;
    values.resize(static_cast<std::size_t>(rows.count * history.dim(1)));
    cx.device->read(filled(history), values.data());
    return values;
  };
  rows.sums = read(sums_);
  rows.peaks = read(peaks_);
  rows.scalars = read(scalars_);
  return rows;
}

}  // namespace tessera
