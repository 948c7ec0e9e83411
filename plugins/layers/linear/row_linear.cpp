#include "row_linear.hpp"

namespace tessera {

void RowLinear::Config::describe(Schema<Config>& s) {
  s.field("in", &Config::in, "input features over all ranks")
      .given()
      .at_least(1)
      .at_most(kMostMatrixSide);
  s.field("out", &Config::out, "output features").given().at_least(1).at_most(kMostMatrixSide);
  s.field("bias", &Config::bias, "add a bias").megatron("--disable-bias-linear");
  s.field("input_is_parallel",
          &Config::input_is_parallel,
          "the input is this rank's part already; otherwise it is cut here");
  model_fields::init_std(s).megatron("--init-method-std");
}

RowLinear::RowLinear(const Config& config, BuildContext& build)
    : region_(build.tensor_region()), input_is_parallel_(config.input_is_parallel) {
  weight_ = &build.parameter({.name = "weight",
                              .shape = {config.out, config.in},
                              .split = {{1, Axis::tensor}},
                              .init = Init::gaussian(config.init_std),
                              .linear = true});
  if (config.bias) {
    bias_ = &build.parameter(
        {.name = "bias", .shape = {config.out}, .tags = {"bias"}, .placement = region_.per_row()});
  }
}

Tensor RowLinear::do_forward(Context& cx, const Tensor& x) const {
  return region_.row(cx, input_is_parallel_ ? x : region_.scatter_features(cx, x), *weight_, bias_);
}

}  // namespace tessera
