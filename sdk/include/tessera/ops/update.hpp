#pragma once
#include <cmath>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/base/operation_rules.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// The scalars of a step, fp64 [kCount], in device memory: rules read them, the host sees them
/// later. A skipped step (found_inf) advances neither `steps` nor the learning rate.
namespace step_scalar {
inline constexpr i64 kSteps = 0;          ///< updates done, this one included
inline constexpr i64 kLearningRate = 1;   ///< of this update
inline constexpr i64 kLossScale = 2;      ///< of the next step's loss, and so of its gradients
inline constexpr i64 kFoundInf = 3;       ///< a FoundInf; not 0: change nothing
inline constexpr i64 kNorm = 4;           ///< gradient norm before clipping, unscaled
inline constexpr i64 kGradientScale = 5;  ///< clip coefficient / loss scale: multiply gradients
inline constexpr i64 kStop = 6;           ///< not 0: a rank asked all ranks to stop
inline constexpr i64 kCleanSteps = 7;     ///< in a row since the loss scale moved
inline constexpr i64 kHysteresis = 8;     ///< overflows until the loss scale shrinks
inline constexpr i64 kCount = 9;
}  // namespace step_scalar

/// Are the gradients of a step finite? If not, was it the loss scale that was too large?
enum FoundInf { kFinite = 0, kScaleTooLarge = 1, kNotExplained = 2 };

/// How a dynamic loss scale moves (Micikevicius et al. 2018, §3.2), with Megatron-Core's
/// hysteresis: after `window` clean steps in a row it is multiplied by `growth`, and `hysteresis`
/// overflows are free again; an overflow that is not free multiplies it by `backoff`, but not below
/// `least`.
struct LossScaling {
  i64 window = 0;                               ///< 0: the scale is fixed
  double growth = 2, backoff = 0.5, least = 1;  ///< backoff < 1
  i64 hysteresis = 2;                           ///< the first overflow that shrinks the scale
  /// What gradients under this scale are. Overflows are the scale's own as long as it can fall.
  FoundInf found_inf(double sum_squares, double scale) const {
    if (std::isfinite(sum_squares)) return kFinite;
    return window > 0 && scale > least ? kScaleTooLarge : kNotExplained;
  }
  /// Moves the scale after a step; `scalars` of step_scalar. On the host or a GPU.
  constexpr void move(double* scalars, bool clean) const {
    if (window == 0) return;
    double &scale = scalars[step_scalar::kLossScale], &steps = scalars[step_scalar::kCleanSteps],
           &left = scalars[step_scalar::kHysteresis];
    steps = clean ? steps + 1 : 0;
    if (clean && steps >= static_cast<double>(window)) {
      scale *= growth;
      steps = 0;
      left = static_cast<double>(hysteresis);
    }
    // Only growth refills it, so of several overflows in a row each later one counts.
    if (!clean && --left <= 0) {
      left = 0;
      scale = scale * backoff < least ? least : scale * backoff;
    }
  }
};

/// out fp64 [n] = 1 / x, 0 where x is 0; x i64 [n]. Inverse weights of loss terms.
struct ReciprocalArgs {
  static constexpr std::string_view kName = "reciprocal";
  static constexpr int kTensors = 2, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"x", TypeRule::integers}, {"out", TypeRule::doubles}};
  TensorArg x, out;
  TESSERA_API static void infer(ReciprocalArgs& args);
};

/// out = the larger of a and b, element by element; NaN where either is. fp64, dense, one shape.
/// out may be a or b.
struct MaximumArgs {
  static constexpr std::string_view kName = "maximum";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"a", TypeRule::doubles}, {"b", TypeRule::doubles}, {"out", TypeRule::doubles}};
  TensorArg a, b, out;
  TESSERA_API static void infer(MaximumArgs& args);
};

/// Squares are summed in blocks of so many elements, counted from the start of each range, and the
/// sums of blocks are added in order.
inline constexpr i64 kSquareBlock = 8192;

/// out fp64 [1] += sum of x² over the elements of x [n] in `ranges` (i64 [k, 2]: begin, length;
/// they do not overlap), or over all of x without ranges. The same bits for any number of threads,
/// and the same as one launch for each range, in order.
struct SumSquaresArgs {
  static constexpr std::string_view kName = "sum_squares";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"x", TypeRule::data}, {"ranges", TypeRule::integers}, {"out", TypeRule::doubles}};
  TensorArg x, ranges, out;
  TESSERA_API static void infer(SumSquaresArgs& args);
};

/// The same in two steps, for ranks that each hold a part of the blocks. out fp64 [m]: out[place] =
/// sum of x² over one block of x [n], for each row of `blocks` (i64 [k, 3]: begin, length of at
/// most kSquareBlock, place); what no row names stays as it is.
struct BlockSquaresArgs {
  static constexpr std::string_view kName = "block_squares";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"x", TypeRule::data}, {"blocks", TypeRule::integers}, {"out", TypeRule::doubles}};
  TensorArg x, blocks, out;
  TESSERA_API static void infer(BlockSquaresArgs& args);
};

/// out fp64 [1] += for each row of `ranges` (i64 [k, 2]: first block, blocks) the sum of its
/// `blocks` fp64 [m], in order: with BlockSquares the same bits as SumSquares.
struct SumBlocksArgs {
  static constexpr std::string_view kName = "sum_blocks";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"blocks", TypeRule::doubles}, {"ranges", TypeRule::integers}, {"out", TypeRule::doubles}};
  TensorArg blocks, ranges, out;
  TESSERA_API static void infer(SumBlocksArgs& args);
};

/// Turns the reduced sum of squares into the step's decision: norm without the loss scale,
/// found_inf, clip coefficient min(1, clip / (norm + 1e-6)) (clip 0: none), steps + 1 and its
/// learning rate from the table (rates fp64 [n], a ring: that of update u is at (u - 1) mod n).
/// Then moves the loss scale, which the next step reads. scalars fp64 [kCount] in place.
struct StepScalarsArgs {
  static constexpr std::string_view kName = "step_scalars";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"sum_squares", TypeRule::doubles},
                                          {"rates", TypeRule::doubles},
                                          {"scalars", TypeRule::doubles}};
  TensorArg sum_squares, rates, scalars;
  double clip = 0;
  LossScaling scaling;
  TESSERA_API static void infer(StepScalarsArgs& args);
};

/// AdamW (Loshchilov, Hutter 2019, algorithm 2) with bias correction, on all shards at once: flat
/// tensors, `ranges` i64 [shards, 4] and `hyper` fp64 [shards, 2] as in Shards (shards.hpp). grad
/// is multiplied by kGradientScale on the way in and zeroed on the way out. compute (optional, of
/// grad's shape): the rounded copy of main. The moments have one dtype, which may be narrower than
/// main's: they are rounded when they are stored. Does nothing but zero grad when kFoundInf is set.
/// What lies between shards stays as it is.
struct AdamWArgs {
  static constexpr std::string_view kName = "adamw";
  static constexpr int kTensors = 8, kOutputs = 5;
  static constexpr TensorRule kRules[] = {{"scalars", TypeRule::doubles},
                                          {"ranges", TypeRule::integers},
                                          {"hyper", TypeRule::doubles},
                                          {"grad", TypeRule::data},
                                          {"main", TypeRule::data},
                                          {"first_moment", TypeRule::floating},
                                          {"second_moment", TypeRule::floating},
                                          {"compute", TypeRule::floating}};
  TensorArg scalars, ranges, hyper, grad, main, first_moment, second_moment, compute;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  TESSERA_API static void infer(AdamWArgs& args);
  TESSERA_API static Effort effort(const AdamWArgs& args);
};

/// Stochastic gradient descent with optional momentum (buffer = momentum · buffer + grad, absent
/// when momentum is 0) and decoupled weight decay; otherwise as AdamWArgs.
struct SgdArgs {
  static constexpr std::string_view kName = "sgd";
  static constexpr int kTensors = 7, kOutputs = 4;
  static constexpr TensorRule kRules[] = {{"scalars", TypeRule::doubles},
                                          {"ranges", TypeRule::integers},
                                          {"hyper", TypeRule::doubles},
                                          {"grad", TypeRule::data},
                                          {"main", TypeRule::data},
                                          {"momentum_buffer", TypeRule::floating},
                                          {"compute", TypeRule::floating}};
  TensorArg scalars, ranges, hyper, grad, main, momentum_buffer, compute;
  double momentum = 0;
  TESSERA_API static void infer(SgdArgs& args);
  TESSERA_API static Effort effort(const SgdArgs& args);
};

}  // namespace tessera
