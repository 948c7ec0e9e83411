#pragma once
#include "tessera/build.hpp"

namespace tessera {

/// y = x Aᵀ + b with A cut along its input features: every rank multiplies its part of x, the
/// results are summed, the bias is added once (Shoeybi et al. 2019, §3). Under sequence parallelism
/// each rank keeps its rows of the sum, and adds the bias to those.
class RowLinear final : public Module {
 public:
  struct Config {
    i64 in = 0, out = 0;
    bool bias = true;
    bool input_is_parallel = true;
    double init_std = 0.02;
    static void describe(Schema<Config>& s);
  };
  RowLinear(const Config& config, BuildContext& build);
  Tensor do_forward(Context& cx, const Tensor& x) const override;

 private:
  TensorRegion region_;
  bool input_is_parallel_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace tessera
