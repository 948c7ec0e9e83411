#include "replicated.hpp"

#include <algorithm>

#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

void Replicated::Config::describe(Schema<Config>& s) {
  s.slot("rule", &Config::rule, "how one parameter is updated").megatron("--optimizer");
  s.field("clip",
          &Config::clip,
          "bound of the norm of all gradients: above it they are scaled down to it; 0: none")
      .at_least(0)
      .megatron("--clip-grad");
  s.tables(
      "groups",
      &Config::groups,
      "parameters with hyperparameters of their own; a parameter belongs to one group at most");
}

Replicated::Replicated(const Config& config, OptimizerArguments& arguments)
    : config_(config),
      mesh_(*arguments.mesh),
      rule_(arguments.make_rule(config.rule)),
      specs_(rule_->state()) {
  check_groups(arguments.model, config.groups);
  const std::vector<Hyper> hyper =
      hyper_of(arguments.parameters, config.groups, rule_->weight_decay());
  for (const Parameter* parameter : arguments.parameters) check_parameter(*parameter);
  Device& device = *arguments.device;
  const ParameterMemory& memory = *arguments.memory;
  shards_.main = memory.main();
  shards_.compute = memory.compute();
  shards_.grad = memory.gradients();
  shards_.list = whole_shards(memory);
  std::vector<Shard> counted;  // in model order, so that the sum has one order however memory lies
  for (std::size_t i = 0; i < arguments.parameters.size(); ++i) {
    const auto shard = std::ranges::find(shards_.list, arguments.parameters[i], &Shard::parameter);
    shard->hyper = hyper[i];
    if (shard->parameter->layout.counted()) counted.push_back(*shard);
    model_order_.push_back(static_cast<std::size_t>(shard - shards_.list.begin()));
  }
  shards_.allocate(device, specs_.size());
  counted_ = range_table(device, counted);
}

void Replicated::check_parameter(const Parameter& parameter) const {
  for (int i = 0; i < kAxes; ++i) {
    const auto axis = static_cast<Axis>(i);
    const i64 parts = mesh_.size(axis);
    if (parts == 1 || !parameter.layout.cut(axis)) continue;
    if (axis != Axis::tensor) {
      fail_config(
          "optimizer.type = \"replicated\" keeps parameters that are whole or cut over tensor "
          "parallelism; {} is cut {} ways over {}",
          parameter.name,
          parts,
          axis_name(axis));
    }
    if (rule_->needs() != Needs::elements) {
      fail_config(
          "optimizer.rule = \"{}\" must see each parameter whole, but {} is cut {} ways over {}; "
          "set parallel.tensor = 1",
          config_.rule.type,
          parameter.name,
          parts,
          axis_name(axis));
    }
  }
}

void Replicated::sum_squares(Context& cx, const Tensor& out) {
  SumSquaresArgs args{shards_.grad.arg(), counted_.arg(), out.arg()};
  ops::run(cx, args);
}

void Replicated::step(Context& cx, const Tensor& scalars) { rule_->update(cx, shards_, scalars); }

std::vector<NamedState> Replicated::state() {
  std::vector<NamedState> out;
  for (const std::size_t i : model_order_) {
    const Shard& shard = shards_.list[i];
    for (std::size_t s = 0; s < specs_.size(); ++s) {
      out.push_back(
          {specs_[s].name, shard.parameter, shard.range, shards_.part(shards_.state[s], i)});
    }
  }
  return out;
}

}  // namespace tessera
