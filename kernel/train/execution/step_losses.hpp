#pragma once
#include <string>
#include <utility>
#include <vector>

#include "kernel/model/model_parts.hpp"
#include "kernel/train/execution/loss_history.hpp"
#include "kernel/train/execution/step_counts.hpp"
#include "tessera/context.hpp"

namespace tessera {

/// Loss terms and metrics of steps on the device, with the inverse weights of the running step, and
/// a history that the host reads at the logging interval.
class StepLosses final : public StepSink {
 public:
  StepLosses(const ModelParts& parts, i64 history_steps, const Mesh& mesh, Device& device);

  Tensor inverse_weight(LossTerm term) override;
  void add_loss(Context& cx, LossTerm term, const Tensor& scalar) override;
  void report(Context& cx, Metric metric, const Tensor& scalar) override;
  void count(Context& cx, Counts counts, i64 set, const Tensor& entries) override {
    counts_.count(cx, counts, set, entries);
  }

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
  double now(Context& cx);

  struct Row {
    using Metric = std::pair<std::string, double>;
    double loss = 0;  ///< sum of all terms but auxiliary ones
    /// Metrics, then auxiliary terms and, where the loss has several, each of its terms, by name.
    /// One to which nothing contributed is left out.
    std::vector<Metric> metrics;
    std::vector<std::pair<std::string, std::vector<double>>> by_layer;  ///< as StepEnd
    std::vector<double> scalars;
    double seconds = 0;  ///< of the step on the device; set by TrainStep
  };
  /// Sums the history over dp × cp, over the pipeline, whose stages report different terms, and
  /// over the tensor group where its ranks do (waits); empties and returns it.
  std::vector<Row> flush(Context& cx);
  bool full() const { return history_.full(); }

 private:
  /// Where contributions go: a column of the sums, or of the peaks where only the largest counts.
  struct Column {
    std::string name;  // under which it is shown
    i64 index = 0;
    bool mine = true;  // does this rank's value count?
    bool auxiliary = false;
    MetricReduce reduce = MetricReduce::sum;
    i64 counts = 0;  // of a mean: the column of the number of its contributions
  };
  struct Columns {
    std::vector<Column> terms, metrics;
    i64 sums = 0, peaks = 0;            // how many there are of each
    std::vector<ProcessGroup*> groups;  // over which values are reduced, in order
  };
  static Columns columns_of(const ModelParts& parts, const Mesh& mesh);
  StepLosses(const ModelParts& parts, i64 history_steps, Device& device, Columns columns);
  void add(Context& cx, i64 column, const Tensor& scalar);
  Row row_of(const double* sums, const double* peaks, const double* scalars) const;

  Device& device_;
  std::vector<Column> terms_, metrics_;
  StepCounts counts_;  // the last columns of the sums' history
  LossHistory history_;
  Tensor inverse_weights_;     // fp64 [terms]
  Tensor sums_, peaks_, one_;  // fp64 [sums], [peaks], [1]; of the running step
  Tensor now_;                 // fp64 [terms], over ranks; since the first now()
};

}  // namespace tessera
