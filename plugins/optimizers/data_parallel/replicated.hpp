#pragma once
#include <vector>

#include "counted_squares.hpp"
#include "grouped_optimizer.hpp"

namespace tessera {

/// Every rank keeps the whole state of its parameters and updates them itself, all in one call of
/// the rule; data-parallel replicas hold equal gradients and so make the same update.
class Replicated final : public GroupedOptimizer {
 public:
  Replicated(const Config& config, OptimizerArguments& arguments);

  void sum_squares(Context& cx, const Tensor& out) override;
  void step(Context& cx, const Tensor& scalars) override;
  std::vector<NamedState> state() override;

 private:
  Shards shards_;
  std::vector<std::size_t> model_order_;  ///< index into the shards of each parameter of the model
  CountedSquares counted_;
};

}  // namespace tessera
