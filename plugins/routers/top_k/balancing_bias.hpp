#pragma once
#include <string>

#include "tessera/build.hpp"
#include "tessera/error.hpp"
#include "tessera/moe_ops.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

/// Biases that balance the loads of experts without a loss (Wang et al. 2024): after each step each
/// moves by `rate` towards the mean of the loads, which are those of the global batch. Evaluation,
/// recomputed phases and skipped steps leave them as they are; so does a rate of 0, always.
class BalancingBias {
 public:
  BalancingBias(double rate, i64 experts, BuildContext& build)
      : rate_(rate),
        name_(build.scope() + ".bias"),
        stage_(build.mesh().find_stage()),
        bias_(build.buffer({.name = "bias", .shape = {experts}})) {
    if (rate == 0) return;
    counts_ =
        &build.buffer({.name = "counts", .shape = {experts}, .dtype = DType::i64, .saved = false});
  }

  /// [experts], for the selection.
  const Tensor& values() const { return bias_.value; }
  /// What was chosen for some rows of the step, i32 [n, k].
  void count(Context& cx, const Tensor& experts) const {
    if (counts_ == nullptr || !cx.training() || cx.recomputing) return;
    ops::add_expert_counts(cx, experts, counts_->value);
  }
  void end_step(Context& cx) const {
    if (counts_ == nullptr) return;
    require(stage_ != nullptr, "{}: this mesh has no communicators", name_);
    stage_->all_reduce(*cx.stream, counts_->value, ReduceOp::sum, name_).wait(*cx.stream);
    ops::run(cx, ExpertBiasArgs{cx.skipped.arg(), bias_.value.arg(), counts_->value.arg(), rate_});
  }

 private:
  double rate_;
  std::string name_;
  ProcessGroup* stage_;
  Buffer& bias_;
  Buffer* counts_ = nullptr;  ///< choices of the step; none where the rate is 0
};

}  // namespace tessera
