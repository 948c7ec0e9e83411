#pragma once
#include <string_view>

#include "tessera/api.hpp"
#include "tessera/tensor.hpp"

namespace tessera {

/// out = op(a) · op(b) (+ bias) or, with accumulate, out += op(a) · op(b). Matrices of one floating
/// dtype with unit inner stride; op transposes. out [m, n]; a [m, k] or, transposed, [k, m];
/// b [k, n] or, transposed, [n, k]; bias [n] optional, not with accumulate.
struct MatmulArgs {
  static constexpr std::string_view kName = "matmul";
  static constexpr int kTensors = 4, kOutputs = 1;
  TensorArg a, b, bias, out;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  TESSERA_API static void infer(MatmulArgs& args);
};

/// out [m] += sum over rows of x [n, m]. The gradient of a bias.
struct ColumnSumArgs {
  static constexpr std::string_view kName = "column_sum";
  static constexpr int kTensors = 2, kOutputs = 1;
  TensorArg x, out;
  TESSERA_API static void infer(ColumnSumArgs& args);
};

/// out [n, m] = x [n, m] + bias [m]. out may be x.
struct AddBiasArgs {
  static constexpr std::string_view kName = "add_bias";
  static constexpr int kTensors = 3, kOutputs = 1;
  TensorArg x, bias, out;
  TESSERA_API static void infer(AddBiasArgs& args);
};

}  // namespace tessera
