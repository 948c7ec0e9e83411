#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "tessera/tape.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

class CoreOps;
class Device;
class Mesh;
class SequenceCache;

enum class Mode : u8 { train, evaluate };

/// A loss term or a metric, declared while building (BuildContext); an index at run time.
struct LossTerm {
  int index = -1;
};
struct Metric {
  int index = -1;
};
/// Integers that a layer counts (BuildContext::counts).
struct Counts {
  int index = -1;
};

/// Where losses and metrics of a step are collected on the device. The host reads it at the logging
/// interval.
class TESSERA_API StepSink {
 public:
  virtual ~StepSink();
  /// fp64 [1]: 1 / (the term's weight over the global batch); 0 when that weight is 0. Written
  /// before the step's first forward.
  virtual Tensor inverse_weight(LossTerm term) = 0;
  /// Accumulates a scalar (fp64 [1]) into the term's value of this step.
  virtual void add_loss(Context& cx, LossTerm term, const Tensor& scalar) = 0;
  /// One contribution (fp64 [1]) to the metric's value of this step.
  virtual void report(Context& cx, Metric metric, const Tensor& scalar) = 0;
  /// Adds 1 to integer e of a set for each e of `entries`, i32 [n, k]. Entries outside [0, size)
  /// add nothing.
  virtual void count(Context& cx, Counts counts, i64 set, const Tensor& entries) = 0;
  /// What a cross entropy knows of each row of the microbatch on this rank, the same on all tensor
  /// ranks: [n, 2], see CrossEntropySumsArgs. For who asks how likely each token is; nothing here.
  virtual void rows(Context& cx, LossTerm term, const Tensor& sums);
};

/// What a phase is handed. Plain references into the rank's run; valid during the call.
struct TESSERA_API Context {
  Device* device = nullptr;
  const CoreOps* ops = nullptr;  ///< the core operations on this device
  Stream* stream = nullptr;
  Pool* pool = nullptr;  ///< where results go: the device's, or a graph slot's arena
  Category category = Category::activations;
  Tape* tape = nullptr;  ///< nullptr: nothing is recorded
  Mode mode = Mode::train;
  const Mesh* mesh = nullptr;
  StepSink* sink = nullptr;
  /// fp64 [1], the gradient of the total loss: the loss scale.
  Tensor loss_scale;
  /// fp64 [1] during Layer::end_step: not 0 where the step changed no parameter (FoundInf).
  Tensor skipped;
  /// True while phases or functions run again for the backward pass: losses and reports are not
  /// counted twice, and buffers stay as they are.
  bool recomputing = false;
  /// Set while a text is generated row by row: what was kept of earlier rows (sequence_cache.hpp).
  SequenceCache* cache = nullptr;
  /// Where a text is generated from padded sequences: how many positions of each hold tokens. What
  /// follows is padding, which must change no token's result; 0: there is none. The ids of its rows
  /// are those of no sample (is_padding, random.hpp).
  i64 seen = 0;

  bool training() const { return mode == Mode::train; }
  /// Is anything recorded now?
  bool recording() const { return tape != nullptr && tape->recording(); }
  /// An uninitialised dense tensor of the current category.
  Tensor empty(const Shape& shape, DType dtype) const;
  /// Adds a root to the tape and counts it: `scalar` (fp64 [1]) is the term's sum × inverse weight.
  void add_loss(LossTerm term, const Tensor& scalar);
  /// Counts a metric; never differentiated.
  void report(Metric metric, const Tensor& scalar);
  /// StepSink::count, in training only, and once where phases run again.
  void count(Counts counts, i64 set, const Tensor& entries);
};

}  // namespace tessera
