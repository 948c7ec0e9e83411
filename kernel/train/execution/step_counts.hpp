#pragma once
#include <string>
#include <utility>
#include <vector>

#include "kernel/model/model_parts.hpp"
#include "tessera/context.hpp"

namespace tessera {

/// What layers count in the running step, on the device, and the metrics that they make of the sums
/// over ranks.
class StepCounts {
 public:
  StepCounts(const std::vector<ModelParts::CountInfo>& counts, Device& device);

  void count(Context& cx, Counts counts, i64 set, const Tensor& entries) const;
  void clear(Context& cx) const;
  /// i64 [width], of this rank; undefined where nothing is counted.
  const Tensor& values() const { return values_; }
  i64 width() const { return width_; }

  using Metrics = std::vector<std::pair<std::string, double>>;
  using ByLayer = std::vector<std::pair<std::string, std::vector<double>>>;
  /// Makes metrics of sums [width]: each one of all layers together and, where several layers have
  /// it, of each.
  void add_metrics(const double* sums, Metrics& metrics, ByLayer& by_layer) const;

 private:
  struct Part {
    CountSpec spec;
    i64 first = 0;  // integer of values_
  };
  std::vector<Part> parts_;  // by Counts::index, in model order
  i64 width_ = 0;
  Tensor values_;
};

}  // namespace tessera
