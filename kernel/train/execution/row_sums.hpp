#pragma once
#include <vector>

#include "kernel/model/model_parts.hpp"
#include "tessera/context.hpp"
#include "tessera/device/device.hpp"

namespace tessera {

/// Takes the place of a step's losses, and keeps what the main one knows of each row of a
/// microbatch: the sum of exp(logit - largest), and the target's logit - largest.
class RowSums final : public StepSink {
 public:
  RowSums(const ModelParts& parts, Device& device);

  Tensor inverse_weight(LossTerm) override { return zero_; }
  void add_loss(Context&, LossTerm, const Tensor&) override {}
  void report(Context&, Metric, const Tensor&) override {}
  void count(Context&, Counts, i64, const Tensor&) override {}
  void rows(Context&, LossTerm term, const Tensor& sums) override;
  /// Both values of each of the `rows` rows of the microbatch that was the last to run. Throws
  /// Error where the model's loss does not say them.
  std::vector<double> take(Context& cx, i64 rows);

 private:
  Device& device_;
  Tensor zero_, sums_;
  int term_;
};

}  // namespace tessera
