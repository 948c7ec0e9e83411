#pragma once
#include <string_view>

#include "tessera/api.hpp"
#include "tessera/operation_rules.hpp"
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

// Auxiliary losses. The shares of a row are its softmax or, for the other scores, its scores over
// their sum. inverse_weight, grad and the losses are fp64 [1]; sums are in double in row order.

/// out = factor · inverse_weight · sum over rows x and experts e of counts[sequence of x][e] ·
/// share of e in x (Fedus et al. 2022, §2.2, for each sequence). counts i64 [sequences, E].
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
