#pragma once
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/mesh.hpp"

namespace tessera {

/// How a step's contributions to a metric become one number: over microbatches, layers, pipeline
/// stages, and the ranks along the metric's partial axes.
enum class MetricReduce : u8 { sum, mean, max };

/// What a layer declares of a metric, which nothing is trained on.
struct MetricSpec {
  std::string_view name;
  MetricReduce reduce = MetricReduce::sum;
  std::vector<Axis> partial = {Axis::context, Axis::data};  ///< as LossSpec
  bool of_validation = false;  ///< is it of a validation, too, as a loss is?
};

/// A metric that a layer makes of what it counted in a step.
struct LayerMetric {
  std::string_view name;  ///< a literal: "moe_imbalance"
  double value = 0;
  MetricReduce over_layers = MetricReduce::mean;
};

/// What a layer declares of integers that it counts, such as the rows of each of its experts:
///
///     counts_ = build.counts({.size = experts, .metrics = [](std::span<const double> rows) {
///       return std::vector<LayerMetric>{{"most_rows", std::ranges::max(rows), MetricReduce::max}};
///     }});
///     // in a phase:
///     cx.count(counts_, 0, chosen);  // i32 [n, k]: experts of rows
///
/// They are summed over the microbatches of a step and over tensor, context and data ranks, so each
/// rank counts what no other one does. Sums travel with the losses and reach the host with them:
/// counting costs one operation of a phase and no wait.
struct CountSpec {
  i64 size = 0;  ///< integers of a set
  i64 sets = 1;  ///< that are counted by themselves
  /// Makes metrics of the layer's sums [sets · size], exact up to 2^53. Called on the host, also
  /// where the layer is on another pipeline rank: it keeps values, and no reference to the layer.
  std::function<std::vector<LayerMetric>(std::span<const double> sums)> metrics;
};

}  // namespace tessera
