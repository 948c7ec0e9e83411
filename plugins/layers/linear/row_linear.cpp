#include "row_linear.hpp"

#include <utility>

#include "tessera/collectives.hpp"
#include "tessera/ops.hpp"

namespace tessera {

void RowLinear::Config::describe(Schema<Config>& s) {
  s.field("in", &Config::in, "input features over all ranks").given().at_least(1);
  s.field("out", &Config::out, "output features").given().at_least(1);
  s.field("bias", &Config::bias, "add a bias").megatron("--disable-bias-linear");
  s.field("input_is_parallel",
          &Config::input_is_parallel,
          "the input is this rank's part already; otherwise it is cut here");
  s.field("init_std", &Config::init_std, "standard deviation of the initial weights")
      .from("model.init_std")
      .at_least(0)
      .megatron("--init-method-std");
}

RowLinear::RowLinear(const Config& config, BuildContext& build)
    : name_(build.scope()),
      input_is_parallel_(config.input_is_parallel),
      sequence_parallel_(build.batch().sequence_parallel) {
  weight_ = &build.parameter({.name = "weight",
                              .shape = {config.out, config.in},
                              .split = {{1, Axis::tensor}},
                              .init = Init::gaussian(config.init_std)});
  if (config.bias) {
    bias_ = &build.parameter(
        {.name = "bias",
         .shape = {config.out},
         .tags = {"bias"},
         .partial = sequence_parallel_ ? std::vector{Axis::tensor} : std::vector<Axis>{}});
  }
}

Tensor RowLinear::operator()(Context& cx, const Tensor& x) const {
  ProcessGroup& group = cx.mesh->group(Axis::tensor);
  if (group.size() == 1) return ops::linear(cx, x, *weight_, bias_);
  const Tensor part = input_is_parallel_ ? x : collectives::scatter(cx, x, group, name_);
  Tensor y = ops::linear(cx, part, *weight_, nullptr);
  y = sequence_parallel_ ? collectives::reduce_scatter_rows(cx, y, group, name_)
                         : collectives::reduce(cx, std::move(y), group, name_);
  return bias_ != nullptr ? ops::add_bias(cx, std::move(y), *bias_) : y;
}

}  // namespace tessera
