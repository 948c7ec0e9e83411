#pragma once
#include <vector>

#include "grouped_optimizer.hpp"

namespace tessera {

/// Every rank keeps the whole state of its parameters and updates them itself; data-parallel
/// replicas hold equal gradients and so make the same update.
class Replicated final : public GroupedOptimizer {
 public:
  Replicated(const Config& config, OptimizerArguments& arguments)
      : GroupedOptimizer(config, arguments, "replicated", StateHolders::every_replica) {}

  void do_sum_squares(Context& cx, const Tensor& out) override { sum_all_squares(cx, out); }
  void do_step(Context& cx, const Tensor& scalars) override { update(cx, scalars); }
  std::vector<NamedState> do_state() override { return all_state(); }
};

}  // namespace tessera
