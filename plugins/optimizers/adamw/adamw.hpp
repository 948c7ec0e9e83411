#pragma once
#include <vector>

#include "tessera/optimizer.hpp"

namespace tessera {

/// AdamW (Loshchilov, Hutter 2019, algorithm 2), with bias correction.
class AdamW final : public UpdateRule {
 public:
  struct Config {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
    static void describe(Schema<Config>& s);
  };
  AdamW(const Config& config, RuleArguments&) : config_(config) {}

  std::vector<StateSpec> do_state() const override {
    return {{"first_moment", nullptr, config_.beta1}, {"second_moment", nullptr, config_.beta2}};
  }
  double do_weight_decay() const override { return config_.weight_decay; }
  void do_update(Context& cx, const Shards& shards, const Tensor& scalars) const override;

 private:
  Config config_;
};

}  // namespace tessera
