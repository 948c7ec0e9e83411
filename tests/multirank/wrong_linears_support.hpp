// Linear modules with one mistake each, for the checks that must find it.
#pragma once
#include "tessera/build.hpp"
#include "tessera/ops.hpp"
#include "tessera/tensor_region.hpp"

namespace tessera::testing {

struct LinearConfig {
  i64 in = 0, out = 0;
  double init_std = 0.02;
  static void describe(Schema<LinearConfig>& s) {
    s.field("in", &LinearConfig::in, "input features").given();
    s.field("out", &LinearConfig::out, "output features").given();
    s.field("init_std", &LinearConfig::init_std, "initial weights").given();
  }
};

/// A column linear that does not enter the tensor region: it takes its own rows for all of them.
class WithoutEnter final : public Module {
 public:
  using Config = LinearConfig;
  WithoutEnter(const Config& config, BuildContext& build)
      : weight_(build.parameter(
            {.name = "weight", .shape = {config.out, config.in}, .split = {{0, Axis::tensor}}})) {}
  Tensor do_forward(Context& cx, const Tensor& x) const override {
    return ops::linear(cx, x, weight_, nullptr);
  }

 private:
  Parameter& weight_;
};

/// A row linear whose bias is added to own rows and declared as if every rank had all of them.
class WholeBias final : public Module {
 public:
  using Config = LinearConfig;
  WholeBias(const Config& config, BuildContext& build)
      : region_(build.tensor_region()),
        weight_(build.parameter(
            {.name = "weight", .shape = {config.out, config.in}, .split = {{1, Axis::tensor}}})),
        bias_(build.parameter(
            {.name = "bias", .shape = {config.out}, .placement = Placement::replicated()})) {}
  Tensor do_forward(Context& cx, const Tensor& x) const override {
    return region_.row(cx, x, weight_, &bias_);
  }

 private:
  TensorRegion region_;
  Parameter &weight_, &bias_;
};

}  // namespace tessera::testing
