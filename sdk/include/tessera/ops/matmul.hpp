#pragma once
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/base/operation_rules.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// out = op(a) · op(b) (+ bias) or, with accumulate, out += op(a) · op(b). Matrices with unit inner
/// stride; op transposes. out [m, n]; a [m, k] or, transposed, [k, m]; b [k, n] or, transposed,
/// [n, k]; bias [n] optional, not with accumulate. One dtype, but out may be a wider accumulator
/// with accumulate. A product counts 2·m·n·k FLOPs.
///
/// `packed` [bytes], optional: what `pack_weight` made of b and this transpose_b. A kernel reads
/// one of the two.
struct MatmulArgs {
  static constexpr std::string_view kName = "matmul";
  static constexpr int kTensors = 5, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"a", TypeRule::data},
                                          {"b", TypeRule::data},
                                          {"bias", TypeRule::data},
                                          {"packed", TypeRule::bytes},
                                          {"out", TypeRule::accumulator}};
  TensorArg a, b, bias, packed, out;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  TESSERA_API static Effort effort(const MatmulArgs& args);
  TESSERA_API static void infer(MatmulArgs& args);
};

/// packed [bytes] = the device's own form of b, for each `matmul` with this b and transpose_b. b
/// has unit inner stride. `LaunchRequirements::output_bytes` of a call without `packed` is its
/// size; 0: the device has no form for such a matrix. No core operation: a device whose products
/// gain nothing does without.
struct PackWeightArgs {
  static constexpr std::string_view kName = "pack_weight";
  static constexpr int kTensors = 2, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"b", TypeRule::data}, {"packed", TypeRule::bytes}};
  TensorArg b, packed;
  bool transpose_b = false;
  TESSERA_API static void infer(PackWeightArgs& args);
};

/// out [m] += sum over rows of x [n, m]. The gradient of a bias.
struct ColumnSumArgs {
  static constexpr std::string_view kName = "column_sum";
  static constexpr int kTensors = 2, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"x", TypeRule::data}, {"out", TypeRule::accumulator}};
  TensorArg x, out;
  TESSERA_API static void infer(ColumnSumArgs& args);
};

/// The weight half of a linear, out = x · weightᵀ + bias, with grad read once. Adds gradᵀ · x to
/// weight_grad [out, in] and the sum of grad over rows to bias_grad [out]. grad [n, out] and
/// x [n, in] have unit inner stride. Counts the product's FLOPs.
struct LinearWeightArgs {
  static constexpr std::string_view kName = "linear_weight";
  static constexpr int kTensors = 4, kOutputs = 2;
  static constexpr TensorRule kRules[] = {{"grad", TypeRule::data},
                                          {"x", TypeRule::data},
                                          {"weight_grad", TypeRule::accumulator},
                                          {"bias_grad", TypeRule::accumulator}};
  TensorArg grad, x, weight_grad, bias_grad;
  TESSERA_API static Effort effort(const LinearWeightArgs& args);
  TESSERA_API static void infer(LinearWeightArgs& args);
  /// The two operations that it is made of, for a device that has none for both.
  TESSERA_API MatmulArgs product() const;
  TESSERA_API ColumnSumArgs sums() const;
};

/// out [n, m] = x [n, m] + bias [m]. out may be x.
struct AddBiasArgs {
  static constexpr std::string_view kName = "add_bias";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"x", TypeRule::data}, {"bias", TypeRule::data}, {"out", TypeRule::data}};
  TensorArg x, bias, out;
  TESSERA_API static void infer(AddBiasArgs& args);
};

}  // namespace tessera
