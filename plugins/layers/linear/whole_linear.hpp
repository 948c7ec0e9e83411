#pragma once
#include "tessera/build.hpp"

namespace tessera {

/// y = x Aᵀ + b with A whole on every rank of the tensor group, of each rank's own rows: between
/// tensor regions, for what no rank has a part of.
class WholeLinear final : public Module {
 public:
  struct Config {
    i64 in = 0, out = 0;
    bool bias = false;
    double init_std = 0.02;
    static void describe(Schema<Config>& s);
  };
  WholeLinear(const Config& config, BuildContext& build);
  Tensor do_forward(Context& cx, const Tensor& x) const override;

 private:
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace tessera
