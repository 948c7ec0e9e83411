#pragma once
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/base/operation_rules.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// Constants of one attention call. Query i attends to keys j with j <= i + causal_offset when
/// causal. Probabilities are dropped by attention_counter(row_ids[i], head_offset + head,
/// key_offset + j) (random.hpp).
struct AttentionSpec {
  double scale = 1;
  bool causal = true;
  i64 causal_offset = 0;
  double dropout = 0;
  u64 key = 0;
  i64 head_offset = 0;
  i64 key_offset = 0;
};

/// out = softmax(scale · q kᵀ) v for each sample and head, never storing the scores (Dao et al.
/// 2022). q, out [b, sq, H, d]; k, v [b, sk, K, d], K divides H (grouped queries); unit inner
/// stride. row_ids i64 [b · sq]. lse [b, H, sq]: log of each row's sum of exponentials; a query
/// that sees no key gives out = 0 and lse = -inf. Counts the FLOPs of two products over the visible
/// area of the scores.
struct AttentionArgs {
  static constexpr std::string_view kName = "attention";
  static constexpr int kTensors = 6, kOutputs = 2;
  static constexpr TensorRule kRules[] = {{"q", TypeRule::data},
                                          {"k", TypeRule::data},
                                          {"v", TypeRule::data},
                                          {"row_ids", TypeRule::integers},
                                          {"out", TypeRule::data},
                                          {"lse", TypeRule::statistic}};
  TensorArg q, k, v, row_ids, out, lse;
  AttentionSpec spec;
  TESSERA_API static Effort effort(const AttentionArgs& args);
  TESSERA_API static void infer(AttentionArgs& args);
};

/// Joins attention over two disjoint sets of keys (log-sum-exp merge, Dao et al. 2022, §3.1; Liu et
/// al. 2023, "Ring Attention"): out and lse, updated in place, become those of the union with
/// part_out and part_lse. out [b, s, H, d], unit inner stride; lse [b, H, s], dense. Rows that saw
/// no key on either side stay out = 0, lse = -inf.
struct AttentionMergeArgs {
  static constexpr std::string_view kName = "attention_merge";
  static constexpr int kTensors = 4, kOutputs = 2;
  static constexpr TensorRule kRules[] = {{"part_out", TypeRule::data},
                                          {"part_lse", TypeRule::statistic},
                                          {"out", TypeRule::data},
                                          {"lse", TypeRule::statistic}};
  TensorArg part_out, part_lse, out, lse;
  TESSERA_API static void infer(AttentionMergeArgs& args);
};

/// Gradients of q, k, v from grad (of out), with the forward's out and lse. Counts four products;
/// what a kernel computes again for lack of memory is its own affair.
struct AttentionBackwardArgs {
  static constexpr std::string_view kName = "attention_backward";
  static constexpr int kTensors = 10, kOutputs = 3;
  static constexpr TensorRule kRules[] = {{"q", TypeRule::data},
                                          {"k", TypeRule::data},
                                          {"v", TypeRule::data},
                                          {"row_ids", TypeRule::integers},
                                          {"out", TypeRule::data},
                                          {"lse", TypeRule::statistic},
                                          {"grad", TypeRule::data},
                                          {"q_grad", TypeRule::data},
                                          {"k_grad", TypeRule::data},
                                          {"v_grad", TypeRule::data}};
  TensorArg q, k, v, row_ids, out, lse, grad, q_grad, k_grad, v_grad;
  AttentionSpec spec;
  TESSERA_API static Effort effort(const AttentionBackwardArgs& args);
  TESSERA_API static void infer(AttentionBackwardArgs& args);
};

}  // namespace tessera
