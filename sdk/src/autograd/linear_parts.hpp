#pragma once
#include "tessera/ops.hpp"

/// The three products of a linear, for the operations that are built around them: ops::linear and
/// collectives::gathered_linear. Exported for tests, which plant mistakes around them.
namespace tessera::linear_parts {

/// x [n, in] · weightᵀ + bias.
TESSERA_API Tensor forward(Context& cx,
                           const Tensor& x,
                           const Parameter& weight,
                           const Parameter* bias);
/// gradient [n, out] · weight.
TESSERA_API Tensor input_gradient(Context& cx, const Tensor& gradient, const Parameter& weight);
/// Adds gradientᵀ · x to the weight's gradient and the sum of the gradient's rows to the bias'.
TESSERA_API void add_weight_gradient(
    Context& cx, const Tensor& gradient, const Tensor& x, Parameter& weight, Parameter* bias);

}  // namespace tessera::linear_parts
