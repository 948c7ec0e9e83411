#pragma once
#include <memory>
#include <vector>

#include "grouped_optimizer.hpp"
#include "shard_norm.hpp"

namespace tessera {

/// ZeRO-1 (Rajbhandari et al. 2020): each replica keeps the optimizer state of its shard and
/// updates that. Sums, norm and update have the bits of `replicated`.
///
/// A shard is a part of every bucket or, for a rule that needs whole parameters, some of them, with
/// about equally many elements for each replica. Then all replicas get all sums of gradients.
class Distributed final : public GroupedOptimizer {
 public:
  static constexpr bool kShardsReplicas = true;

  Distributed(const Config& config, OptimizerArguments& arguments);

  void do_sum_squares(Context& cx, const Tensor& out) override;
  void do_step(Context& cx, const Tensor& scalars) override;
  std::vector<NamedState> do_state() override { return all_state(); }

 private:
  std::vector<Tensor> others_;       ///< gradients of what other replicas update
  std::unique_ptr<ShardNorm> norm_;  ///< where each replica has the sums of its shard only
};

}  // namespace tessera
