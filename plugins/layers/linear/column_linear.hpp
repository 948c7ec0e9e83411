#pragma once
#include <vector>

#include "tessera/build.hpp"

namespace tessera {

/// y = x Aᵀ + b with A cut by columns of its transpose: every rank of the tensor group holds
/// out / t features of each section (Shoeybi et al. 2019, §3). Forward needs no communication
/// unless gather_output; backward sums the gradient of x. Under sequence parallelism x is this
/// rank's rows, gathered forward and once more backward.
class ColumnLinear final : public Module {
 public:
  struct Config {
    i64 in = 0, out = 0;
    std::vector<i64> sections;
    bool bias = true;
    bool gather_output = false;
    double init_std = 0.02;
    static void describe(Schema<Config>& s);
  };
  ColumnLinear(const Config& config, BuildContext& build);
  Tensor do_forward(Context& cx, const Tensor& x) const override;

 private:
  TensorRegion region_;
  bool gather_output_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace tessera
