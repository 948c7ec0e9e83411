#pragma once
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/base/operation_rules.hpp"
#include "tessera/ops/moe.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// How logits become the weights of the chosen experts.
enum class RouterScore : u8 {
  softmax,         ///< softmax over the chosen logits
  softmax_before,  ///< softmax over all logits; the chosen ones are not normalised again
  sigmoid,         ///< sigmoid(logit) over the sum of the chosen ones, where there are several
  sqrt_softplus,   ///< sqrt(log(1 + exp(logit))), divided like sigmoid
};

/// Constants of a router. With groups, the experts are `groups` runs of equal length; a token
/// chooses among the experts of `group_top_k` groups only, those whose largest
/// top_k / group_top_k scores have the largest sum. Weights are multiplied by `scale`.
struct RouterSpec {
  static constexpr i64 kMaxExperts = 1024;
  i64 top_k = 1;
  RouterScore score = RouterScore::softmax;
  i64 groups = 1, group_top_k = 1;
  double scale = 1;
};

/// experts i32 [n, top_k]: the experts of each row's largest scores, the largest first, the lower
/// expert first among equal ones. logits [n, E]; bias [E] optional, added to the scores. Without
/// bias the logits are compared, which are in the order of the scores and exact; RouterScore's
/// softmax has the logits for scores throughout. Scores are fp32 or wider. Rows with NaN have some
/// top_k different experts.
struct TopkExpertsArgs {
  static constexpr std::string_view kName = "topk_experts";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"logits", TypeRule::data}, {"bias", TypeRule::statistic}, {"experts", TypeRule::indices}};
  TensorArg logits, bias, experts;
  RouterSpec spec;
  TESSERA_API static void infer(TopkExpertsArgs& args);
};

/// weights [n, k] of the experts i32 [n, k], by spec.score and spec.scale. A choice outside
/// [0, E) has the weight 0 and no part in sums.
struct RouterWeightsArgs {
  static constexpr std::string_view kName = "router_weights";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"logits", TypeRule::data}, {"experts", TypeRule::indices}, {"weights", TypeRule::statistic}};
  TensorArg logits, experts, weights;
  RouterSpec spec;
  TESSERA_API static void infer(RouterWeightsArgs& args);
};

/// out [n, E] = gradient of the logits; grad [n, k] is the weights'.
struct RouterWeightsBackwardArgs {
  static constexpr std::string_view kName = "router_weights_backward";
  static constexpr int kTensors = 4, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"grad", TypeRule::statistic},
                                          {"logits", TypeRule::data},
                                          {"experts", TypeRule::indices},
                                          {"out", TypeRule::data}};
  TensorArg grad, logits, experts, out;
  RouterSpec spec;
  TESSERA_API static void infer(RouterWeightsBackwardArgs& args);
};

/// experts i32 [n, E]: each expert takes the `rows` rows of each sequence whose softmax share of it
/// is the largest, the first row of the sequence among equal ones (Zhou et al. 2022, §3.2). Column
/// e of a row is e where expert e took it, else -1. logits [N, E] are those of N / length sequences
/// in parts: `parts` runs of N / parts rows, each with length / parts rows of every sequence in
/// order; positions i64 [N]: where in its sequence each row is. The n rows from `first` on are
/// those of this rank. Only the first `seen` positions take part, where it is not 0: an expert then
/// takes ceil(seen · rows / length) rows of each sequence.
struct ExpertChoiceArgs {
  static constexpr std::string_view kName = "expert_choice";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"logits", TypeRule::data},
                                          {"positions", TypeRule::integers},
                                          {"experts", TypeRule::indices}};
  TensorArg logits, positions, experts;
  i64 rows = 1, length = 1, parts = 1;
  i64 first = 0, n = 0;
  i64 seen = 0;
  TESSERA_API static void infer(ExpertChoiceArgs& args);
};

/// bias [E] += rate · sign(mean of the counts - count), unless skipped (fp64 [1]) is not 0 (Wang et
/// al. 2024, "Auxiliary-Loss-Free Load Balancing"). Then counts i64 [E] are 0.
struct ExpertBiasArgs {
  static constexpr std::string_view kName = "expert_bias";
  static constexpr int kTensors = 3, kOutputs = 2;
  static constexpr TensorRule kRules[] = {
      {"skipped", TypeRule::doubles}, {"bias", TypeRule::data}, {"counts", TypeRule::integers}};
  TensorArg skipped, bias, counts;
  double rate = 0;
  TESSERA_API static void infer(ExpertBiasArgs& args);
};

/// out [n, f] = x · (1 - eps + 2 · eps · u), u in [0, 1) by the word of hidden_counter(row_ids[i],
/// j) under `key` (random.hpp): its own gradient. row_ids i64 [n]. out may be x.
struct JitterArgs {
  static constexpr std::string_view kName = "jitter";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"x", TypeRule::data}, {"row_ids", TypeRule::integers}, {"out", TypeRule::data}};
  TensorArg x, row_ids, out;
  u64 key = 0;
  double eps = 0;
  TESSERA_API static void infer(JitterArgs& args);
};

// Auxiliary losses. The shares of a row are its softmax or, for the other scores, its scores over
// their sum. inverse_weight, grad and the losses are fp64 [1]; sums are in double in a fixed order.

/// out = factor · inverse_weight · sum over rows x and experts e of counts[sequence of x][e] ·
/// share of e in x (Fedus et al. 2022, §2.2, for each sequence). counts i64 [sequences, E]. With
/// `fractions` counts are divided by their sum over the experts of the sequence.
struct BalanceLossArgs {
  static constexpr std::string_view kName = "balance_loss";
  static constexpr int kTensors = 4, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"logits", TypeRule::data},
                                          {"counts", TypeRule::integers},
                                          {"inverse_weight", TypeRule::doubles},
                                          {"out", TypeRule::doubles}};
  TensorArg logits, counts, inverse_weight, out;
  SequenceRows rows;
  RouterScore score = RouterScore::softmax;
  double factor = 1;
  bool fractions = false;
  TESSERA_API static void infer(BalanceLossArgs& args);
};

/// out [n, E] = gradient of the logits; that of the counts is none.
struct BalanceGradArgs {
  static constexpr std::string_view kName = "balance_grad";
  static constexpr int kTensors = 5, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"logits", TypeRule::data},
                                          {"counts", TypeRule::integers},
                                          {"inverse_weight", TypeRule::doubles},
                                          {"grad", TypeRule::doubles},
                                          {"out", TypeRule::data}};
  TensorArg logits, counts, inverse_weight, grad, out;
  SequenceRows rows;
  RouterScore score = RouterScore::softmax;
  double factor = 1;
  bool fractions = false;
  TESSERA_API static void infer(BalanceGradArgs& args);
};

/// out = factor · inverse_weight · sum over rows of (log of the sum of exp(logits))² (Zoph et al.
/// 2022, "ST-MoE").
struct ZLossArgs {
  static constexpr std::string_view kName = "z_loss";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"logits", TypeRule::data},
                                          {"inverse_weight", TypeRule::doubles},
                                          {"out", TypeRule::doubles}};
  TensorArg logits, inverse_weight, out;
  double factor = 1;
  TESSERA_API static void infer(ZLossArgs& args);
};

/// out [n, E] = gradient of the logits.
struct ZLossGradArgs {
  static constexpr std::string_view kName = "z_loss_grad";
  static constexpr int kTensors = 4, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"logits", TypeRule::data},
                                          {"inverse_weight", TypeRule::doubles},
                                          {"grad", TypeRule::doubles},
                                          {"out", TypeRule::data}};
  TensorArg logits, inverse_weight, grad, out;
  double factor = 1;
  TESSERA_API static void infer(ZLossGradArgs& args);
};

}  // namespace tessera
