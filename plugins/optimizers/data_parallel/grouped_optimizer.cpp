#include "grouped_optimizer.hpp"

#include "tessera/error.hpp"
#include "tessera/types.hpp"

namespace tessera {

void OptimizerConfig::describe(Schema<OptimizerConfig>& s) {
  s.slot("rule", &OptimizerConfig::rule, "how one parameter is updated").megatron("--optimizer");
  s.field("clip",
          &OptimizerConfig::clip,
          "bound of the norm of all gradients: above it they are scaled down to it; 0: none")
      .at_least(0)
      .megatron("--clip-grad");
  s.field("state_dtype",
          &OptimizerConfig::state_dtype,
          "dtype of the rule's state (moments); main: that of the main values. What is narrower is "
          "rounded when it is stored")
      .one_of({"main", "fp32", "bf16"})
      .megatron("--exp-avg-dtype");
  s.tables(
      "groups",
      &OptimizerConfig::groups,
      "parameters with hyperparameters of their own; a parameter belongs to one group at most");
}

GroupedOptimizer::GroupedOptimizer(const Config& config,
                                   OptimizerArguments& arguments,
                                   std::string_view type)
    : config_(config),
      rule_(arguments.make_rule(config.rule)),
      specs_(rule_->state()),
      state_dtype_(config.state_dtype == "main" ? arguments.memory->main().dtype()
                                                : parse_dtype(config.state_dtype)),
      parameters_(arguments.parameters.begin(), arguments.parameters.end()) {
  check_groups(arguments.model, config.groups);
  const std::vector<Hyper> hyper = hyper_of(parameters_, config.groups, rule_->weight_decay());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    check_parameter(*parameters_[i], *arguments.mesh, type);
    hyper_[parameters_[i]] = hyper[i];
  }
}

void GroupedOptimizer::check_parameter(const Parameter& parameter,
                                       const Mesh& mesh,
                                       std::string_view type) const {
  for (int i = 0; i < kAxes; ++i) {
    const auto axis = static_cast<Axis>(i);
    const i64 parts = mesh.size(axis);
    if (parts == 1 || !parameter.layout.cut(axis)) continue;
    const bool dense = axis == Axis::tensor;
    if (!dense && axis != Axis::expert && axis != Axis::expert_tensor) {
      fail_config(
          "optimizer.type = \"{}\" keeps parameters that are whole or cut over tensor or expert "
          "parallelism; {} is cut {} ways over {}",
          type,
          parameter.name,
          parts,
          axis_name(axis));
    }
    if (rule_->needs() != Needs::elements) {
      fail_config(
          "optimizer.rule = \"{}\" must see each parameter whole, but {} is cut {} ways over {}; "
          "set parallel.{} = 1",
          config_.rule.type,
          parameter.name,
          parts,
          axis_name(axis),
          dense                  ? "tensor"
          : axis == Axis::expert ? "expert"
                                 : "expert_tensor");
    }
  }
}

}  // namespace tessera
