#pragma once
#include "tessera/context.hpp"
#include "tessera/parameter.hpp"
#include "tessera/plugin.hpp"

namespace tessera::testing {

/// Writes to y what a norm of x in bf16 gives whose intermediate values are all bf16.
void norm_in_bf16(
    Context& cx, const Tensor& x, const Parameter& weight, const Parameter& bias, const Tensor& y);

/// A step_scalars for `reference` that leaves the loss scale in the norm.
void register_scaled_norm(Registrar& registrar);

}  // namespace tessera::testing
