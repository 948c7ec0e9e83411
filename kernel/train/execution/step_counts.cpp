#include "kernel/train/execution/step_counts.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/error.hpp"
#include "tessera/moe_ops.hpp"

namespace tessera {

namespace {

double reduced(MetricReduce by, const std::vector<double>& values) {
  if (by == MetricReduce::max) return std::ranges::max(values);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return by == MetricReduce::sum ? sum : sum / static_cast<double>(values.size());
}

}  // namespace

StepCounts::StepCounts(const std::vector<ModelParts::CountInfo>& counts, Device& device) {
  for (const ModelParts::CountInfo& of : counts) {
    parts_.push_back({of.spec, width_});
    width_ += of.spec.sets * of.spec.size;
  }
  if (width_ == 0) return;
  values_ = Tensor::allocate(
      device, device.pool(), device.stream(), {width_}, DType::i64, Category::communication);
}

void StepCounts::count(Context& cx, Counts counts, i64 set, const Tensor& entries) const {
  const Part& part = parts_.at(static_cast<std::size_t>(counts.index));
  require(set >= 0 && set < part.spec.sets, "set {} of {} that are counted", set, part.spec.sets);
  const i64 size = part.spec.size;
  ops::add_expert_counts(cx, entries, values_.slice(0, part.first + set * size, size));
}

void StepCounts::clear(Context& cx) const {
  if (!values_.defined()) return;
  ops::run(cx, FillArgs{values_.arg(), 0});
}

void StepCounts::add_metrics(const double* sums, Metrics& metrics, ByLayer& by_layer) const {
  struct Found {
    std::string name;
    MetricReduce reduce;
    std::vector<double> values;
  };
  std::vector<Found> all;
  for (const Part& part : parts_) {
    const auto size = static_cast<std::size_t>(part.spec.sets * part.spec.size);
    for (const LayerMetric& metric : part.spec.metrics({sums + part.first, size})) {
      auto found = std::ranges::find(all, metric.name, &Found::name);
      if (found == all.end()) {
        found = all.insert(all.end(), {std::string(metric.name), metric.over_layers, {}});
      }
      found->values.push_back(metric.value);
    }
  }
  for (Found& found : all) {
    metrics.emplace_back(found.name, reduced(found.reduce, found.values));
    if (found.values.size() > 1) by_layer.emplace_back(found.name, std::move(found.values));
  }
}

}  // namespace tessera
