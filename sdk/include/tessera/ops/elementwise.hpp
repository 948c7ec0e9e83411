#pragma once
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/base/operation_rules.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// out = a + b, dense, one shape and dtype. out may be a or b.
struct AddArgs {
  static constexpr std::string_view kName = "add";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"a", TypeRule::data}, {"b", TypeRule::data}, {"out", TypeRule::data}};
  TensorArg a, b, out;
  TESSERA_API static void infer(AddArgs& args);
};

/// out = a · b, dense, one shape and dtype. out may be a or b.
struct MultiplyArgs {
  static constexpr std::string_view kName = "multiply";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"a", TypeRule::data}, {"b", TypeRule::data}, {"out", TypeRule::data}};
  TensorArg a, b, out;
  TESSERA_API static void infer(MultiplyArgs& args);
};

/// out = factor · x, dense. out may be x.
struct ScaleArgs {
  static constexpr std::string_view kName = "scale";
  static constexpr int kTensors = 2, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"x", TypeRule::data}, {"out", TypeRule::data}};
  TensorArg x, out;
  double factor = 1;
  TESSERA_API static void infer(ScaleArgs& args);
};

/// The tanh form of GELU (Hendrycks, Gimpel 2016, §2), as GPT-2 uses it:
/// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))). Dense.
struct GeluArgs {
  static constexpr std::string_view kName = "gelu";
  static constexpr int kTensors = 2, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"x", TypeRule::data}, {"out", TypeRule::data}};
  TensorArg x, out;
  TESSERA_API static void infer(GeluArgs& args);
};
/// out = grad · derivative at x. out may be grad.
struct GeluBackwardArgs {
  static constexpr std::string_view kName = "gelu_backward";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"grad", TypeRule::data}, {"x", TypeRule::data}, {"out", TypeRule::data}};
  TensorArg grad, x, out;
  TESSERA_API static void infer(GeluBackwardArgs& args);
};

/// GELU itself (Hendrycks, Gimpel 2016, §2): x Φ(x) = 0.5 x (1 + erf(x / sqrt(2))). Dense.
struct GeluErfArgs {
  static constexpr std::string_view kName = "gelu_erf";
  static constexpr int kTensors = 2, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"x", TypeRule::data}, {"out", TypeRule::data}};
  TensorArg x, out;
  TESSERA_API static void infer(GeluErfArgs& args);
};
/// out = grad · derivative at x. out may be grad.
struct GeluErfBackwardArgs {
  static constexpr std::string_view kName = "gelu_erf_backward";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"grad", TypeRule::data}, {"x", TypeRule::data}, {"out", TypeRule::data}};
  TensorArg grad, x, out;
  TESSERA_API static void infer(GeluErfBackwardArgs& args);
};

/// out = tanh(x). Dense.
struct TanhArgs {
  static constexpr std::string_view kName = "tanh";
  static constexpr int kTensors = 2, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"x", TypeRule::data}, {"out", TypeRule::data}};
  TensorArg x, out;
  TESSERA_API static void infer(TanhArgs& args);
};
/// out = grad · derivative at x. out may be grad.
struct TanhBackwardArgs {
  static constexpr std::string_view kName = "tanh_backward";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"grad", TypeRule::data}, {"x", TypeRule::data}, {"out", TypeRule::data}};
  TensorArg grad, x, out;
  TESSERA_API static void infer(TanhBackwardArgs& args);
};

/// out [n, f] = residual (optional) + dropped(x): each element of x is kept with probability 1 - p
/// and scaled by 1/(1 - p), by the word of hidden_counter(row_ids[i], feature_offset + j) under
/// `key` (random.hpp). Without residual it is its own gradient. out may be x.
struct DropoutArgs {
  static constexpr std::string_view kName = "dropout";
  static constexpr int kTensors = 4, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"x", TypeRule::data},
                                          {"residual", TypeRule::data},
                                          {"row_ids", TypeRule::integers},
                                          {"out", TypeRule::data}};
  TensorArg x, residual, row_ids, out;
  u64 key = 0;
  double p = 0;
  i64 feature_offset = 0;
  TESSERA_API static void infer(DropoutArgs& args);
};

/// Every element = value. Any strides.
struct FillArgs {
  static constexpr std::string_view kName = "fill";
  static constexpr int kTensors = 1, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"out", TypeRule::any}};
  TensorArg out;
  double value = 0;
  TESSERA_API static void infer(FillArgs& args);
};

/// out = x, converted to out's dtype; one shape, any strides.
struct CopyArgs {
  static constexpr std::string_view kName = "copy";
  static constexpr int kTensors = 2, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"x", TypeRule::any}, {"out", TypeRule::any}};
  TensorArg x, out;
  TESSERA_API static void infer(CopyArgs& args);
};

}  // namespace tessera
