#pragma once
#include <vector>

#include "tessera/optimizer.hpp"

namespace tessera {

/// Stochastic gradient descent; momentum as buffer = momentum · buffer + gradient.
class Sgd final : public UpdateRule {
 public:
  struct Config {
    double momentum = 0, weight_decay = 0;
    static void describe(Schema<Config>& s);
  };
  Sgd(const Config& config, RuleArguments&) : config_(config) {}

  std::vector<StateSpec> do_state() const override;
  double do_weight_decay() const override { return config_.weight_decay; }
  void do_update(Context& cx, const Shards& shards, const Tensor& scalars) const override;

 private:
  Config config_;
};

}  // namespace tessera
