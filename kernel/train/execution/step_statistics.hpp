#pragma once
#include "kernel/model/model_parts.hpp"
#include "tessera/context.hpp"
#include "tessera/optimizer.hpp"

namespace tessera {

/// What the ranks sum once in a step, in one collective: requests to stop and the squares of the
/// gradients, whose root is the norm. The sums are the same on every rank.
class StepStatistics {
 public:
  /// The mesh outlives it.
  StepStatistics(const ModelParts& parts, const Mesh& mesh, Device& device);

  /// All ranks call it, when all gradients are summed. `stop_requests`: i64 [1], summed over data
  /// and context ranks.
  void sum(Context& cx, Optimizer& optimizer, const Tensor& stop_requests) const;
  /// fp64 [1] each.
  Tensor stop() const { return values_.slice(0, 0, 1); }
  Tensor sum_squares() const { return values_.slice(0, 1, 1); }

 private:
  void add_experts(Context& cx) const;

  const Mesh& mesh_;
  bool has_experts_ = false;
  Tensor values_;  // fp64 [3]: requests to stop, squares of dense parameters, of experts
};

}  // namespace tessera
