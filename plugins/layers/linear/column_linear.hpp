#pragma once
#include <string>
#include <vector>

#include "tessera/build.hpp"

namespace tessera {

/// y = x Aᵀ + b with A cut by columns of its transpose: every rank of the tensor group holds
/// out / t features of each section (Shoeybi et al. 2019, §3). Forward needs no communication
/// unless gather_output; backward all-reduces the gradient of x. Under sequence parallelism x is
/// this rank's rows, gathered forward and once more backward; the gradient is reduce-scattered.
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
  Tensor operator()(Context& cx, const Tensor& x) const override;

 private:
  std::string name_;
  bool gather_output_, sequence_parallel_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace tessera
