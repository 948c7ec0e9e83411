#pragma once
#include <memory>
#include <vector>

#include "counted_squares.hpp"
#include "grouped_optimizer.hpp"
#include "shard_norm.hpp"

namespace tessera {

/// ZeRO-1 (Rajbhandari et al. 2020): each replica keeps the optimizer state of its shard of every
/// bucket, and updates that shard, in one call of the rule for each bucket. Sums, norm and update
/// have the bits of `replicated`.
///
/// Of a rule that needs whole parameters each replica updates some, about equally many elements,
/// one call for each. Then all replicas get all sums of gradients, as `replicated` does.
class Distributed final : public GroupedOptimizer {
 public:
  static constexpr bool kShardsReplicas = true;

  Distributed(const Config& config, OptimizerArguments& arguments);

  void sum_squares(Context& cx, const Tensor& out) override;
  std::vector<int> owners() const override { return owners_; }
  void step(Context& cx, const Tensor& scalars) override;
  std::vector<NamedState> state() override;

 private:
  void take_shards(const OptimizerArguments& arguments, const ParameterBucket& from);
  void share_out(const OptimizerArguments& arguments);
  void take_whole(const OptimizerArguments& arguments, const ParameterBucket& from);

  std::vector<int> owners_;     ///< of whole parameters, in model order
  std::vector<Shards> shards_;  ///< one for each bucket, or for each whole parameter
  std::vector<Tensor> others_;  ///< gradients of what other replicas update
  std::unique_ptr<ShardNorm> norm_;
  CountedSquares counted_;  ///< for the norm, where parameters are whole
  Tensor nothing_;          ///< [0], state of parameters of which this rank updates nothing
};

}  // namespace tessera
