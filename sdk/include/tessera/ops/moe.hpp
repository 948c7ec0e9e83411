#pragma once
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/base/operation_rules.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

// Rows of tokens are brought into the order of their experts and back. A choice is one of the k
// experts of one of n tokens; its number is token · k + choice. An expert outside [0, E) means
// that the choice is dropped.

/// Which sequence a row of a rank belongs to: row i is row first + i of `sequences` equal ones of
/// `positions` rows each. positions 0: all rows are of one.
struct SequenceRows {
  i64 first = 0, positions = 0, sequences = 1;
  i64 of(i64 row) const { return positions == 0 ? 0 : (first + row) / positions; }
};

/// counts i64 [E]: how many of `experts` i32 [n, k] are each expert; with rows.positions, counts
/// i64 [sequences, E], those of each sequence. With `add` they are added to what counts holds.
struct ExpertCountsArgs {
  static constexpr std::string_view kName = "expert_counts";
  static constexpr int kTensors = 2, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"experts", TypeRule::indices},
                                          {"counts", TypeRule::integers}};
  TensorArg experts, counts;
  i64 all = 0;  ///< E
  SequenceRows rows;
  bool add = false;
  TESSERA_API static void infer(ExpertCountsArgs& args);
};

/// order i32 [n·k]: the numbers of the choices, by expert, and in their order within an expert;
/// dropped ones last. inverse i32 [n, k]: the place of each choice in `order`.
struct SortByExpertArgs {
  static constexpr std::string_view kName = "sort_by_expert";
  static constexpr int kTensors = 3, kOutputs = 2;
  static constexpr TensorRule kRules[] = {
      {"experts", TypeRule::indices}, {"order", TypeRule::indices}, {"inverse", TypeRule::indices}};
  TensorArg experts, order, inverse;
  i64 all = 0;  ///< E
  TESSERA_API static void infer(SortByExpertArgs& args);
};

/// kept i32 [n, k]: the choices of rows [first, first + n) of experts i32 [m, k] that their experts
/// take, and `all` for those that are dropped. An expert takes `limit` of the choices of a sample
/// (row_ids i64 [m], random.hpp), or of all rows: those of the largest weights [m, k] (fp32 or
/// fp64), or without weights of the lowest positions. Among equal weights, the lower position
/// first; NaN is below all. Rows of padding (random.hpp) have no part. So many rows are looked at
/// on every rank that the result does not depend on which rank has which.
struct KeepChoicesArgs {
  static constexpr std::string_view kName = "keep_choices";
  static constexpr int kTensors = 4, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"experts", TypeRule::indices},
                                          {"weights", TypeRule::floating},
                                          {"row_ids", TypeRule::integers},
                                          {"kept", TypeRule::indices}};
  TensorArg experts, weights, row_ids, kept;
  i64 all = 0;  ///< E
  i64 limit = 0;
  bool per_sample = true;
  i64 first = 0, rows = 0;  ///< rows: n
  TESSERA_API static void infer(KeepChoicesArgs& args);
};

/// padded i32 [E · places]: `places` entries for each expert, its choices from `order` (of
/// sort_by_expert), of which counts i64 [E] are each expert's, then -1. Choices beyond are left
/// out.
struct PadOrderArgs {
  static constexpr std::string_view kName = "pad_order";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"order", TypeRule::indices}, {"counts", TypeRule::integers}, {"padded", TypeRule::indices}};
  TensorArg order, counts, padded;
  i64 places = 0;
  TESSERA_API static void infer(PadOrderArgs& args);
};

/// inverse i32 [size]: inverse[order[i]] = i, and -1 where no i is; order i32 of any shape, whose
/// entries outside [0, size) name nothing.
struct InvertOrderArgs {
  static constexpr std::string_view kName = "invert_order";
  static constexpr int kTensors = 2, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"order", TypeRule::indices},
                                          {"inverse", TypeRule::indices}};
  TensorArg order, inverse;
  i64 size = 0;
  TESSERA_API static void infer(InvertOrderArgs& args);
};

/// out [m, h] = rows order[i] / k of x [n, h], of any one dtype; order i32 [m]. A row whose entry
/// names no row of x is zero: a place that a fixed capacity leaves empty.
struct PermuteRowsArgs {
  static constexpr std::string_view kName = "permute_rows";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"x", TypeRule::any}, {"order", TypeRule::indices}, {"out", TypeRule::any}};
  TensorArg x, order, out;
  i64 k = 1;
  TESSERA_API static Effort effort(const PermuteRowsArgs& args);
  TESSERA_API static void infer(PermuteRowsArgs& args);
};

/// out [n, h] = sum of the rows inverse[i, 0], inverse[i, 1], … of y [m, h], in this order; inverse
/// i32 [n, k]. An entry outside [0, m) adds nothing.
struct UnpermuteRowsArgs {
  static constexpr std::string_view kName = "unpermute_rows";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"y", TypeRule::data}, {"inverse", TypeRule::indices}, {"out", TypeRule::data}};
  TensorArg y, inverse, out;
  TESSERA_API static void infer(UnpermuteRowsArgs& args);
};

// Products of the rows of experts: the first counts[0] rows are expert 0's, the next counts[1]
// expert 1's, and so on; counts i64 [E]. Rows after the last expert's are padding. Counts that are
// negative are 0, and those that add up to more than there are rows end with the rows. FLOPs are
// counted for all rows.

/// out [m, n] = a [m, k] · b[expert]; b [E, k, n] or, transposed, [E, n, k]. Padding rows are 0.
struct GroupedMatmulArgs {
  static constexpr std::string_view kName = "grouped_matmul";
  static constexpr int kTensors = 4, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"a", TypeRule::data},
                                          {"counts", TypeRule::integers},
                                          {"b", TypeRule::data},
                                          {"out", TypeRule::data}};
  TensorArg a, counts, b, out;
  bool transpose_b = false;
  TESSERA_API static Effort effort(const GroupedMatmulArgs& args);
  TESSERA_API static void infer(GroupedMatmulArgs& args);
};

/// out[expert] [k, n] += aᵀ · grad over the expert's rows; a [m, k], grad [m, n], out [E, k, n].
struct GroupedWeightArgs {
  static constexpr std::string_view kName = "grouped_weight";
  static constexpr int kTensors = 4, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"a", TypeRule::data},
                                          {"counts", TypeRule::integers},
                                          {"grad", TypeRule::data},
                                          {"out", TypeRule::accumulator}};
  TensorArg a, counts, grad, out;
  TESSERA_API static Effort effort(const GroupedWeightArgs& args);
  TESSERA_API static void infer(GroupedWeightArgs& args);
};

/// The function between an MLP's two products. Those with a gate take rows [gate | up], 2f wide
/// (Shazeer 2020, "GLU Variants"); the others rows of f. Here gelu is the operation of that name,
/// the tanh form ("gelu_pytorch_tanh" in transformers).
enum class Activation : u8 {
  swiglu,  ///< silu(gate) · up
  gelu,    ///< gelu(x)
  geglu,   ///< gelu(gate) · up
};
constexpr bool is_gated(Activation activation) { return activation != Activation::gelu; }

/// out [m, f] = weights [m] · activation(x). Without weights they are 1.
struct WeightedActivationArgs {
  static constexpr std::string_view kName = "weighted_activation";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"x", TypeRule::data}, {"weights", TypeRule::statistic}, {"out", TypeRule::data}};
  TensorArg x, weights, out;
  Activation activation = Activation::swiglu;
  TESSERA_API static void infer(WeightedActivationArgs& args);
};

/// x_grad, of x's shape, and, with weights, weights_grad [m], from grad [m, f].
struct WeightedActivationBackwardArgs {
  static constexpr std::string_view kName = "weighted_activation_backward";
  static constexpr int kTensors = 5, kOutputs = 2;
  static constexpr TensorRule kRules[] = {{"grad", TypeRule::data},
                                          {"x", TypeRule::data},
                                          {"weights", TypeRule::statistic},
                                          {"x_grad", TypeRule::data},
                                          {"weights_grad", TypeRule::statistic}};
  TensorArg grad, x, weights, x_grad, weights_grad;
  Activation activation = Activation::swiglu;
  TESSERA_API static void infer(WeightedActivationBackwardArgs& args);
};

}  // namespace tessera
