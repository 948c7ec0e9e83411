#pragma once
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/base/operation_rules.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// Layer normalisation of each row (Ba, Kiros, Hinton 2016): out = (x - mean) · rstd · weight +
/// bias, rstd = 1 / sqrt(biased variance + eps). x, out [n, h]; weight, bias [h]; mean, rstd [n],
/// in x's dtype but never narrower than fp32.
///
/// With centred = false it is RMSNorm (Zhang, Sennrich 2019): out = x · rstd · weight, rstd =
/// 1 / sqrt(mean of x² + eps). mean, bias and bias_grad are absent then, here and in the operations
/// below, which take the same flag.
struct LayerNormArgs {
  static constexpr std::string_view kName = "layernorm";
  static constexpr int kTensors = 6, kOutputs = 3;
  static constexpr TensorRule kRules[] = {{"x", TypeRule::data},
                                          {"weight", TypeRule::data},
                                          {"bias", TypeRule::data},
                                          {"out", TypeRule::data},
                                          {"mean", TypeRule::statistic},
                                          {"rstd", TypeRule::statistic}};
  TensorArg x, weight, bias, out, mean, rstd;
  double eps = 1e-5;
  bool centred = true;
  TESSERA_API static void infer(LayerNormArgs& args);
};

/// Input half: out [n, h] = d loss / dx.
struct LayerNormBackwardArgs {
  static constexpr std::string_view kName = "layernorm_backward";
  static constexpr int kTensors = 6, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"grad", TypeRule::data},
                                          {"x", TypeRule::data},
                                          {"weight", TypeRule::data},
                                          {"mean", TypeRule::statistic},
                                          {"rstd", TypeRule::statistic},
                                          {"out", TypeRule::data}};
  TensorArg grad, x, weight, mean, rstd, out;
  bool centred = true;
  TESSERA_API static void infer(LayerNormBackwardArgs& args);
};

/// The same with what else uses x: out = sum + d loss / dx. sum [n, h]; out may be sum.
struct LayerNormBackwardAddArgs {
  static constexpr std::string_view kName = "layernorm_backward_add";
  static constexpr int kTensors = 7, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"grad", TypeRule::data},
                                          {"x", TypeRule::data},
                                          {"weight", TypeRule::data},
                                          {"mean", TypeRule::statistic},
                                          {"rstd", TypeRule::statistic},
                                          {"sum", TypeRule::data},
                                          {"out", TypeRule::data}};
  TensorArg grad, x, weight, mean, rstd, sum, out;
  bool centred = true;
  TESSERA_API static void infer(LayerNormBackwardAddArgs& args);
};

/// Weight half: weight_grad [h] += sum of grad · x̂, bias_grad [h] += sum of grad over rows.
struct LayerNormWeightArgs {
  static constexpr std::string_view kName = "layernorm_weight";
  static constexpr int kTensors = 6, kOutputs = 2;
  static constexpr TensorRule kRules[] = {{"grad", TypeRule::data},
                                          {"x", TypeRule::data},
                                          {"mean", TypeRule::statistic},
                                          {"rstd", TypeRule::statistic},
                                          {"weight_grad", TypeRule::accumulator},
                                          {"bias_grad", TypeRule::accumulator}};
  TensorArg grad, x, mean, rstd, weight_grad, bias_grad;
  bool centred = true;
  TESSERA_API static void infer(LayerNormWeightArgs& args);
};

}  // namespace tessera
