#include "kernel/train/execution/step_statistics.hpp"

#include <algorithm>

#include "tessera/mesh.hpp"
#include "tessera/ops.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

StepStatistics::StepStatistics(const ModelParts& parts, const Mesh& mesh, Device& device)
    : mesh_(mesh),
      has_experts_(std::ranges::any_of(
          parts.parameters(),
          [](const ModelParts::Entry& entry) { return entry.parameter->layout.expert(); })),
      values_(Tensor::allocate(
          device, device.pool(), device.stream(), {3}, DType::fp64, Category::optimizer)) {}

void StepStatistics::sum(Context& cx, Optimizer& optimizer, const Tensor& stop_requests) const {
  const Tensor squares = values_.slice(0, 1, 2);
  ops::run(cx, FillArgs{squares.arg(), 0});
  optimizer.sum_squares(cx, squares);
  if (has_experts_) add_experts(cx);
  ops::run(cx, CopyArgs{stop_requests.arg(), stop().arg()});
  mesh_.model()
      .all_reduce(*cx.stream, values_.slice(0, 0, 2), ReduceOp::sum, "gradient norm")
      .wait(*cx.stream);
}

// Each rank of a stage then has the sum over the stage's experts, the first of a tensor group adds
// it to what is summed over the model replica.
void StepStatistics::add_experts(Context& cx) const {
  const Tensor experts = values_.slice(0, 2, 1), dense = sum_squares();
  mesh_.experts()
      .all_reduce(*cx.stream, experts, ReduceOp::sum, "gradient norm of the experts")
      .wait(*cx.stream);
  if (!mesh_.first(Axis::tensor)) return;
  ops::run(cx, AddArgs{dense.arg(), experts.arg(), dense.arg()});
}

}  // namespace tessera
