#pragma once
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/base/operation_rules.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

// Cross entropy over a vocabulary cut into shards (Shoeybi et al. 2019, §3): between these
// operations only [n] and [n, 2] scalars are reduced over the ranks, never logits.
// logits [n, v]: columns [0, valid) are this shard's entries first … first + valid - 1 of the
// vocabulary, the rest is padding and never read. targets i64 [n]; mask u8 [n].

/// out [n] = largest valid logit of each row; -inf for a shard of padding only. dtype of logits,
/// never narrower than fp32.
struct CrossEntropyMaxArgs {
  static constexpr std::string_view kName = "cross_entropy_max";
  static constexpr int kTensors = 2, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"logits", TypeRule::data}, {"out", TypeRule::statistic}};
  TensorArg logits, out;
  i64 valid = 0;
  TESSERA_API static void infer(CrossEntropyMaxArgs& args);
};

/// out [n, 2] = (sum of exp(logit - max), target logit - max or 0 where another shard owns it).
struct CrossEntropySumsArgs {
  static constexpr std::string_view kName = "cross_entropy_sums";
  static constexpr int kTensors = 4, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"logits", TypeRule::data},
                                          {"targets", TypeRule::integers},
                                          {"max", TypeRule::statistic},
                                          {"out", TypeRule::statistic}};
  TensorArg logits, targets, max, out;
  i64 first = 0, valid = 0;
  TESSERA_API static void infer(CrossEntropySumsArgs& args);
};

/// out fp64 [1] = inverse_weight · sum over rows with mask 1 of log(sum) - target. Summed in double
/// in a fixed order. inverse_weight fp64 [1]. With `hits` it is inverse_weight times the number of
/// rows with mask 1 of whose logits none is larger than the target's.
struct CrossEntropyLossArgs {
  static constexpr std::string_view kName = "cross_entropy_loss";
  static constexpr int kTensors = 4, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"sums", TypeRule::statistic},
                                          {"mask", TypeRule::mask},
                                          {"inverse_weight", TypeRule::doubles},
                                          {"out", TypeRule::doubles}};
  TensorArg sums, mask, inverse_weight, out;
  bool hits = false;
  TESSERA_API static void infer(CrossEntropyLossArgs& args);
};

/// out [n, v] = grad · inverse_weight · mask · (softmax - one hot); 0 in padding columns. grad fp64
/// [1]. out may be logits.
struct CrossEntropyGradArgs {
  static constexpr std::string_view kName = "cross_entropy_grad";
  static constexpr int kTensors = 8, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"logits", TypeRule::data},
                                          {"targets", TypeRule::integers},
                                          {"max", TypeRule::statistic},
                                          {"sums", TypeRule::statistic},
                                          {"mask", TypeRule::mask},
                                          {"inverse_weight", TypeRule::doubles},
                                          {"grad", TypeRule::doubles},
                                          {"out", TypeRule::data}};
  TensorArg logits, targets, max, sums, mask, inverse_weight, grad, out;
  i64 first = 0, valid = 0;
  TESSERA_API static void infer(CrossEntropyGradArgs& args);
};

/// CrossEntropyMax, CrossEntropySums and, with out, CrossEntropyGrad over a vocabulary that no
/// ranks share (first = 0), row by row. out [n, v] is optional and may be logits; without it
/// inverse_weight and grad are not read.
struct WholeCrossEntropyArgs {
  static constexpr std::string_view kName = "whole_cross_entropy";
  static constexpr int kTensors = 7, kOutputs = 2;
  static constexpr TensorRule kRules[] = {{"logits", TypeRule::data},
                                          {"targets", TypeRule::integers},
                                          {"mask", TypeRule::mask},
                                          {"inverse_weight", TypeRule::doubles},
                                          {"grad", TypeRule::doubles},
                                          {"sums", TypeRule::statistic},
                                          {"out", TypeRule::data}};
  TensorArg logits, targets, mask, inverse_weight, grad, sums, out;
  i64 valid = 0;
  TESSERA_API static void infer(WholeCrossEntropyArgs& args);
};

}  // namespace tessera
