#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/context.hpp"
#include "tessera/parameter.hpp"

namespace tessera::testing {

/// What is differentiated: results from inputs, by functions of ops::. Must be pure; what it
/// captures (parameters, ids) stays the same.
using TensorFunction =
    std::function<std::vector<Tensor>(Context&, const std::vector<Tensor>& inputs)>;

struct GradientOptions {
  double step = 1e-5;
  double relative = 1e-7;  ///< of the largest gradient of the same tensor
  double absolute = 1e-9;
  i64 probes = 100;  ///< elements tried per tensor, evenly spread
  u64 seed = 1;      ///< of the weights of the results
};

/// Compares the gradients that the tape gives for inputs and parameters with central differences
/// of sum(weights · results), for random weights. Everything in fp64. Also checks that the input
/// and the weight half, run apart, give the same bits as both at once, that parameters' gradients
/// are added to what is there, and that the function leaves its inputs alone. Empty when all
/// agrees, else one line per problem.
TESSERA_API std::string gradient_check(Context& cx,
                                       const TensorFunction& function,
                                       const std::vector<Tensor>& inputs,
                                       std::span<Parameter* const> parameters = {},
                                       const GradientOptions& options = {});

}  // namespace tessera::testing
