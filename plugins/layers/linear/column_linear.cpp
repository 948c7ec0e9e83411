#include "column_linear.hpp"

namespace tessera {

void ColumnLinear::Config::describe(Schema<Config>& s) {
  s.field("in", &Config::in, "input features").given().at_least(1).at_most(kMostMatrixSide);
  s.field("out", &Config::out, "output features over all ranks")
      .given()
      .at_least(1)
      .at_most(kMostMatrixSide);
  s.field("sections", &Config::sections, "sizes of fused outputs, each cut on its own")
      .given()
      .at_least(1)
      .at_most(kMostMatrixSide);
  s.field("bias", &Config::bias, "add a bias").megatron("--disable-bias-linear");
  s.field("gather_output", &Config::gather_output, "all-gather the result: every rank gets all");
  model_fields::init_std(s).megatron("--init-method-std");
}

ColumnLinear::ColumnLinear(const Config& config, BuildContext& build)
    : region_(build.tensor_region()), gather_output_(config.gather_output) {
  if (config.gather_output && config.sections.size() > 1) {
    build.reject("gather_output", "the parts of fused sections would be gathered out of order");
  }
  const Split split{0, Axis::tensor, config.sections};
  weight_ = &build.parameter({.name = "weight",
                              .shape = {config.out, config.in},
                              .split = {split},
                              .init = Init::gaussian(config.init_std),
                              .linear = true});
  if (config.bias) {
    bias_ = &build.parameter(
        {.name = "bias", .shape = {config.out}, .split = {split}, .tags = {"bias"}});
  }
}

Tensor ColumnLinear::do_forward(Context& cx, const Tensor& x) const {
  const Tensor y = region_.column(cx, x, *weight_, bias_);
  return gather_output_ ? region_.gather_features(cx, y) : y;
}

}  // namespace tessera
