#pragma once
#include "tessera/ops.hpp"

/// Differentiable operations of mixtures of experts. Shapes: n tokens, k choices each, E experts; a
/// choice's number is token · k + choice. All shapes are known to the host; how many rows an expert
/// has is read on the device only, so everything here may be captured.
namespace tessera::ops {

/// What a router decided.
struct Routed {
  Tensor weights;  ///< [n, k], logits' dtype but never narrower than fp32; tracked
  Tensor experts;  ///< i32 [n, k], the best first
};
/// Chooses spec.top_k experts for each row of logits [n, E]. bias [E] (fp32 or wider) may be
/// undefined; it takes part in the selection only. Gradient to the logits.
TESSERA_API Routed topk_router(Context& cx,
                               const Tensor& logits,
                               const Tensor& bias,
                               const RouterSpec& spec);
/// x [n, f] times random factors between 1 - eps and 1 + eps, tracked, in training; else x.
/// `row_ids` i64 [n].
TESSERA_API Tensor jitter(Context& cx, const Tensor& x, const Tensor& row_ids, double eps, u64 key);
/// The weights [n, k] of experts i32 [n, k] that were chosen by other means, tracked.
TESSERA_API Tensor router_weights(Context& cx,
                                  const Tensor& logits,
                                  const Tensor& experts,
                                  const RouterSpec& spec);

/// Part of the auxiliary loss that balances the experts of each sequence: over all ranks of the
/// sequence these parts add up to
///     coefficient · E / (top_k · length²) · inverse_weight · sum over e of
///         (rows of the sequence that e is among the top_k largest logits of) · (sum of its
///         shares),
/// so that a mean over sequences has inverse_weight (fp64 [1]) = 1 / (their number), and gradients
/// are plain sums. `experts` i32 [n, top_k] are those of the largest logits; undefined where the
/// router has a bias or groups: they are found here. One reduction of sequences × E integers over
/// `group`, the ranks that share the sequences.
struct BalanceSpec {
  RouterScore score = RouterScore::softmax;  ///< the shares: softmax, or scores over their sum
  i64 top_k = 1;
  double coefficient = 0;
  i64 length = 0;          ///< rows of a sequence, on all ranks together
  SequenceRows rows = {};  ///< those of this rank
  /// i64 [E], this rank's counts of earlier rows: those of these rows are added to it, and the
  /// fraction of an expert is that of all of them. For one sequence only; undefined: no earlier
  /// rows.
  Tensor counted = {};
};
TESSERA_API Tensor balance_loss(Context& cx,
                                const Tensor& logits,
                                const Tensor& experts,
                                const BalanceSpec& spec,
                                const Tensor& inverse_weight,
                                ProcessGroup& group,
                                std::string_view name);
/// coefficient · inverse_weight · sum over this rank's rows of logsumexp(logits)², fp64 [1]. Rows
/// of at most RouterSpec::kMaxExperts logits, as of router_weights and balance_loss.
TESSERA_API Tensor z_loss(Context& cx,
                          const Tensor& logits,
                          double coefficient,
                          const Tensor& inverse_weight);

/// i64 [E]: the choices of each expert among experts i32 [n, k].
TESSERA_API Tensor expert_counts(Context& cx, const Tensor& experts, i64 all);
/// i64 [rows.sequences, E]: the same of each sequence.
TESSERA_API Tensor expert_counts(Context& cx,
                                 const Tensor& experts,
                                 i64 all,
                                 const SequenceRows& rows);

/// Adds those of `experts` i32 [n, k] to counts i64 [E].
TESSERA_API void add_expert_counts(Context& cx, const Tensor& experts, const Tensor& counts);
/// Which choices an expert takes (KeepChoicesArgs).
struct KeepSpec {
  i64 experts = 0;  ///< E
  i64 limit = 0;    ///< choices of one expert, in a sample or in all rows
  bool per_sample = true;
  i64 first = 0, rows = 0;  ///< the rows that the result is of
};
/// i32 [rows, k]: `experts` [m, k] of those rows, where the expert takes the choice, else E.
/// `weights` [m, k] undefined: by position.
TESSERA_API Tensor keep_choices(Context& cx,
                                const Tensor& experts,
                                const Tensor& weights,
                                const Tensor& row_ids,
                                const KeepSpec& spec);

struct ExpertOrder {
  Tensor order;    ///< i32 [n·k]: choices by expert, stable; dropped ones (outside [0, E)) last
  Tensor inverse;  ///< i32 [n, k]: the place of each choice in `order`
};
TESSERA_API ExpertOrder sort_by_expert(Context& cx, const Tensor& experts, i64 all);
/// i32 [E · places]: `places` entries for each expert: its choices from `order`, of which counts
/// i64 [E] are each expert's, then -1.
TESSERA_API Tensor pad_order(Context& cx, const Tensor& order, const Tensor& counts, i64 places);
/// i32 [size]: where each number below `size` stands in `order` (i32, any shape); -1: nowhere.
TESSERA_API Tensor invert_order(Context& cx, const Tensor& order, i64 size);

/// [m, h]: row order[i] / k of x [n, h] for each entry of order i32 [m]; zero where an entry names
/// no row. x may be of any dtype where it is not tracked. `inverse` ([n, k] of `order`) may be
/// given to save the backward pass an inversion.
TESSERA_API Tensor
permute_rows(Context& cx, const Tensor& x, const Tensor& order, i64 k, const Tensor& inverse = {});
/// [n, h]: the sum, in order, of rows inverse[i, 0], inverse[i, 1], … of y [m, h]; inverse i32
/// [n, k]. Entries outside [0, m) add nothing. `order` ([m] of `inverse`) may be given, as above.
TESSERA_API Tensor unpermute_rows(Context& cx,
                                  const Tensor& y,
                                  const Tensor& inverse,
                                  const Tensor& order = {});

/// y [m, out] = x [m, in] · weight[expert]; weight [E, in, out]. Rows of an expert are consecutive:
/// counts i64 [E] of them each; rows after the last expert's are padding and become 0. The weight
/// half adds to weight.grad for every expert.
TESSERA_API Tensor grouped_linear(Context& cx,
                                  const Tensor& x,
                                  Parameter& weight,
                                  const Tensor& counts);

/// [m, f]: weights [m] · activation(x) of x [m, f], or [m, 2f] where the activation has a gate,
/// which comes first. weights (fp32 or wider) may be undefined: 1. Gradients to both.
TESSERA_API Tensor weighted_activation(Context& cx,
                                       const Tensor& x,
                                       const Tensor& weights,
                                       Activation activation);
/// The one of this name, as a configuration has it: "swiglu". Throws ConfigError where there is
/// none.
TESSERA_API Activation activation_named(std::string_view name);

}  // namespace tessera::ops
