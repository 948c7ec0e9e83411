#include <cmath>

#include "mutants_support.hpp"
#include "tessera/ops.hpp"
#include "tessera/optimizer.hpp"
#include "tessera/process_group.hpp"

namespace tessera::testing {

namespace {

// What the optimizer `replicated` updates where it has no groups.
Shards shards_without_groups(const OptimizerArguments& arguments, const UpdateRule& rule) {
  Shards shards(*arguments.memory, own_shards(*arguments.memory));
  for (Shard& shard : shards.list) {
    shard.hyper = usual_hyper(*shard.parameter, rule.weight_decay());
  }
  shards.allocate(*arguments.device, rule.state().size());
  return shards;
}

// As `replicated` without groups. It may take the norm over the wrong elements, meddle with the
// gradients of experts, or decide by its own gradients alone whether to skip.
class MutantOptimizer final : public Optimizer {
 public:
  struct Config {
    double clip = 0;
    std::string mistake = "none";
    Component<UpdateRule> rule{"adamw", {}};
    static void describe(Schema<Config>& s) {
      s.field("clip", &Config::clip, "bound of the norm");
      s.slot("rule", &Config::rule, "update");
      describe_mistake(s,
                       {"norm_of_every_replica",
                        "norm_without_replicas",
                        "norm_of_every_copy",
                        "summed_over_dense_replicas",
                        "divided_by_expert_ranks",
                        "norm_of_every_expert_replica",
                        "norm_of_own_experts",
                        "own_overflow"});
    }
  };
  MutantOptimizer(const Config& config, OptimizerArguments& arguments)
      : config_(config),
        mesh_(*arguments.mesh),
        rule_(arguments.make_rule(config.rule)),
        shards_(shards_without_groups(arguments, *rule_)) {}

  void do_sum_squares(Context& cx, const Tensor& out) override {
    for (std::size_t i = 0; i < shards_.list.size(); ++i) {
      const ParameterLayout& layout = shards_.list[i].parameter->layout;
      const Tensor gradient = shards_.grad_of(i);
      if (layout.expert()) meddle(cx, gradient);
      if (!counts(layout)) continue;
      ops::run(cx,
               SumSquaresArgs{gradient.arg(), {}, out.slice(0, layout.expert() ? 1 : 0, 1).arg()});
    }
    if (wrong("norm_of_every_expert_replica")) {
      scale(cx, out.slice(0, 1, 1), static_cast<double>(mesh_.size(Axis::expert_data)));
    }
    if (!wrong("own_overflow")) return;
    double own = 0;
    cx.device->read(out.slice(0, 0, 1), &own);
    overflow_ = !std::isfinite(own);
  }
  void do_step(Context& cx, const Tensor& scalars) override {
    if (!wrong("own_overflow")) return rule_->update(cx, shards_, scalars);
    std::vector<double> values(step_scalar::kCount);
    cx.device->read(scalars, values.data());
    if (values[step_scalar::kFoundInf] != 0 && !overflow_) {
      values[step_scalar::kFoundInf] = 0;
      values[step_scalar::kGradientScale] = 1 / values[step_scalar::kLossScale];
      values[step_scalar::kSteps] += 1;
    }
    const Tensor own = cx.empty({step_scalar::kCount}, DType::fp64);
    cx.device->write(own, values.data());
    rule_->update(cx, shards_, own);
  }
  double do_clip() const override { return config_.clip; }
  std::vector<NamedState> do_state() override { return {}; }

 private:
  bool wrong(std::string_view mistake) const { return config_.mistake == mistake; }
  bool counts(const ParameterLayout& layout) const {
    const bool whole = !layout.cut(Axis::tensor);
    if (whole && wrong("norm_without_replicas")) return false;
    if (layout.expert() && wrong("norm_of_own_experts") && mesh_.experts().index() != 0) {
      return false;
    }
    return layout.counted() || (whole && wrong("norm_of_every_replica")) ||
           (layout.shared() && wrong("norm_of_every_copy"));
  }
  void meddle(Context& cx, const Tensor& gradient) const {
    if (wrong("summed_over_dense_replicas")) {
      mesh_.data_context()
          .all_reduce(*cx.stream, gradient, ReduceOp::sum, "gradients of experts")
          .wait(*cx.stream);
    }
    if (wrong("divided_by_expert_ranks")) {
      scale(cx, gradient, 1 / static_cast<double>(mesh_.size(Axis::expert)));
    }
  }
  static void scale(Context& cx, const Tensor& x, double factor) {
    ops::run(cx, ScaleArgs{x.arg(), x.arg(), factor});
  }

  Config config_;
  const Mesh& mesh_;
  bool overflow_ = false;
  std::shared_ptr<UpdateRule> rule_;
  Shards shards_;
};

}  // namespace

void register_optimizer_mutant(Registrar& registrar) {
  registrar.add<Optimizer, MutantOptimizer>("mutant_optimizer", "optimizer");
}

}  // namespace tessera::testing
