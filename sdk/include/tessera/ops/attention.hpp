#pragma once
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/base/operation_rules.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// Constants of one attention call. Key j of the call is at position key_offset + j of its sample.
/// Which keys a query sees: `visible_keys`. Probabilities are dropped by
/// attention_counter(row_ids[i], head_offset + head, key_offset + j) (random.hpp).
struct AttentionSpec {
  double scale = 1;
  bool causal = true;
  i64 causal_offset = 0;
  i64 window = 0;  ///< the most keys that a query sees, up to its own; 0: no limit
  double dropout = 0;
  u64 key = 0;
  i64 head_offset = 0;
  i64 key_offset = 0;
};

/// Keys [begin, end) of a call; none where begin >= end.
struct KeyRange {
  i64 begin, end;
};
/// The keys that query `query` of a call with `keys` keys sees. When causal none is after key
/// query + causal_offset, the query's own. `first` and `last` point to the query's own limits,
/// positions in the sample, or are null. With a window none is more than window - 1 before the
/// query's own key, or, of a query that is not causal, before `last`; whether or not this call has
/// that key.
constexpr KeyRange visible_keys(
    const AttentionSpec& spec, i64 query, i64 keys, const i32* first, const i32* last) {
  i64 begin = 0, end = keys;
  if (last != nullptr) end = *last - spec.key_offset + 1;
  const i64 newest = spec.causal ? query + spec.causal_offset + 1 : end;
  if (newest < end) end = newest;
  if (spec.window > 0 && newest - spec.window > begin) begin = newest - spec.window;
  if (first != nullptr && *first - spec.key_offset > begin) begin = *first - spec.key_offset;
  return {begin, end < 0 ? 0 : (end < keys ? end : keys)};
}

/// out = softmax(scale · q kᵀ) v for each sample and head, never storing the scores (Dao et al.
/// 2022). q [b, sq, H, d], k [b, sk, K, d], v [b, sk, K, dv], out [b, sq, H, dv]; K divides H
/// (grouped queries); unit inner stride. row_ids i64 [b · sq]. first, last i32 [b, sq]: see
/// `visible_keys`; each may be absent, but a window is for causal queries or those with `last`. lse
/// [b, H, sq]: log of each row's sum of exponentials; a query that sees no key gives out = 0 and
/// lse = -inf. What lies after the last key that some query of a sample sees is not read. Counts
/// the FLOPs of two products over the area of the scores that is visible without first and last.
struct AttentionArgs {
  static constexpr std::string_view kName = "attention";
  static constexpr int kTensors = 8, kOutputs = 2;
  static constexpr TensorRule kRules[] = {{"q", TypeRule::data},
                                          {"k", TypeRule::data},
                                          {"v", TypeRule::data},
                                          {"row_ids", TypeRule::integers},
                                          {"first", TypeRule::indices},
                                          {"last", TypeRule::indices},
                                          {"out", TypeRule::data},
                                          {"lse", TypeRule::statistic}};
  TensorArg q, k, v, row_ids, first, last, out, lse;
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
  static constexpr int kTensors = 12, kOutputs = 3;
  static constexpr TensorRule kRules[] = {{"q", TypeRule::data},
                                          {"k", TypeRule::data},
                                          {"v", TypeRule::data},
                                          {"row_ids", TypeRule::integers},
                                          {"first", TypeRule::indices},
                                          {"last", TypeRule::indices},
                                          {"out", TypeRule::data},
                                          {"lse", TypeRule::statistic},
                                          {"grad", TypeRule::data},
                                          {"q_grad", TypeRule::data},
                                          {"k_grad", TypeRule::data},
                                          {"v_grad", TypeRule::data}};
  TensorArg q, k, v, row_ids, first, last, out, lse, grad, q_grad, k_grad, v_grad;
  AttentionSpec spec;
  TESSERA_API static Effort effort(const AttentionBackwardArgs& args);
  TESSERA_API static void infer(AttentionBackwardArgs& args);
};

}  // namespace tessera
