#pragma once
#include <string>
#include <vector>

#include "kernel/model/model_parts.hpp"
#include "tessera/context.hpp"

namespace tessera {

/// Loss terms and metrics of steps on the device, with the inverse weights of the running step, and
/// a history that the host reads at the logging interval.
class StepLosses final : public StepSink {
 public:
  StepLosses(const ModelParts& parts, i64 history_steps, Device& device);

  Tensor inverse_weight(LossTerm term) override;
  void add_loss(Context& cx, LossTerm term, const Tensor& scalar) override;
  void report(Context& cx, Metric metric, const Tensor& scalar) override;

  /// Starts a step: sums `weights` over the group, in place, inverts those of the loss terms on the
  /// device and clears the values. `weights`: i64 [terms or more], this rank's weight of each loss
  /// term first; what follows is summed too.
  void begin(Context& cx, const Tensor& weights, ProcessGroup& data);
  /// Weights and values are zero: for passes whose losses nobody reads.
  void clear(Context& cx);
  /// Appends the step's values and its scalars (fp64 [step_scalar::kCount]; none of a validation)
  /// to the history.
  void keep(Context& cx, const Tensor& scalars = {});

  /// The running step's loss, equal on all ranks; they all call it, after the last forward pass.
  /// Waits for the device.
  double now(Context& cx, const Mesh& mesh);

  struct Row {
    double loss = 0;              ///< sum of all terms
    std::vector<double> metrics;  ///< in the order of ModelParts::metrics()
    std::vector<double> scalars;
    double seconds = 0;  ///< of the step on the device; set by TrainStep
  };
  /// Sums the history over dp × cp and over the pipeline, whose stages report different terms
  /// (waits); empties and returns it.
  std::vector<Row> flush(Context& cx, const Mesh& mesh);
  bool full() const { return rows_ == capacity_; }

 private:
  Tensor value(int index) const { return values_.slice(0, index, 1); }
  void accumulate(Context& cx, int index, const Tensor& scalar);
  i64 terms_, metrics_, capacity_, rows_ = 0;
  Device& device_;
  Tensor inverse_weights_;           // fp64 [terms]
  Tensor values_;                    // fp64 [terms + metrics]
  Tensor sums_;                      // fp64 [terms], over ranks; since the first now()
  Tensor history_, scalar_history_;  // fp64 [capacity, …]
};

}  // namespace tessera
