#include "whole_linear.hpp"

#include "tessera/ops.hpp"

namespace tessera {

void WholeLinear::Config::describe(Schema<Config>& s) {
  s.field("in", &Config::in, "input features").given().at_least(1).at_most(kMostMatrixSide);
  s.field("out", &Config::out, "output features").given().at_least(1).at_most(kMostMatrixSide);
  s.field("bias", &Config::bias, "add a bias");
  model_fields::init_std(s).megatron("--init-method-std");
}

WholeLinear::WholeLinear(const Config& config, BuildContext& build) {
  const Placement per_row = build.tensor_region().per_row();
  weight_ = &build.parameter({.name = "weight",
                              .shape = {config.out, config.in},
                              .init = Init::gaussian(config.init_std),
                              .placement = per_row,
                              .linear = true});
  if (config.bias) {
    bias_ = &build.parameter(
        {.name = "bias", .shape = {config.out}, .tags = {"bias"}, .placement = per_row});
  }
}

Tensor WholeLinear::do_forward(Context& cx, const Tensor& x) const {
  return ops::linear(cx, x, *weight_, bias_);
}

}  // namespace tessera
