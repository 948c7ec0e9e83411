#include "replicated.hpp"

#include <algorithm>

#include "tessera/comm.hpp"
#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {
namespace {

Tensor allocate(Device& device, const Shape& shape, DType dtype) {
  return Tensor::allocate(
      device, device.pool(), device.stream(), shape, dtype, Category::optimizer);
}

Tensor zeros(Device& device, const Shape& shape, DType dtype) {
  Tensor tensor = allocate(device, shape, dtype);
  Operation<FillArgs>(device).launch(device.stream(), device.pool(), {tensor.arg(), 0});
  return tensor;
}

/// All elements in one row, as rules want them.
Tensor flat(const Tensor& tensor) { return tensor.view({tensor.elements()}); }

}  // namespace

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
  std::vector<i64> hits;
  const std::vector<Hyper> hyper =
      hyper_of(arguments.parameters, config.groups, rule_->weight_decay(), hits);
  for (const Parameter* parameter : arguments.parameters) check_parameter(*parameter);
  check_groups(std::move(hits), arguments.device);
  for (std::size_t i = 0; i < arguments.parameters.size(); ++i) {
    Parameter* parameter = arguments.parameters[i];
    Entry entry{parameter, hyper[i], {}};
    for (std::size_t s = 0; arguments.device != nullptr && s < specs_.size(); ++s) {
      entry.state.push_back(zeros(*arguments.device, parameter->local, parameter->main.dtype()));
    }
    entries_.push_back(std::move(entry));
  }
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

void Replicated::check_groups(std::vector<i64> hits, Device* device) const {
  if (hits.empty()) return;
  if (mesh_.size(Axis::pipeline) > 1) {
    // A group's parameters may all live on other stages. A check of the configuration alone has no
    // communicators; the run finds it then.
    if (device == nullptr || mesh_.all().empty()) return;
    hits.push_back(1);  // comes back as 0 from a device without values, as in a plan
    const Tensor all = allocate(*device, {static_cast<i64>(hits.size())}, DType::i64);
    device->write(all, hits.data());
    Work work = mesh_.group(Axis::pipeline)
                    .all_reduce(device->stream(), all, ReduceOp::sum, "optimizer.groups");
    work.wait(device->stream());
    device->read(all, hits.data());
    if (hits.back() == 0) return;
    hits.pop_back();
  }
  std::size_t index = 0;
  for (const auto& [name, group] : config_.groups) {
    if (hits[index++] > 0) continue;
    fail_config(
        "optimizer.groups.{}.match: \"{}\" is the name or tag of no parameter", name, group.match);
  }
}

void Replicated::sum_squares(Context& cx, const Tensor& out) {
  for (const Entry& entry : entries_) {
    if (!entry.parameter->layout.counted()) continue;
    SumSquaresArgs args;
    args.x = flat(entry.parameter->grad).arg();
    args.out = out.arg();
    ops::run(cx, args);
  }
}

void Replicated::step(Context& cx, const Tensor& scalars) {
  Shard shard;
  for (const Entry& entry : entries_) {
    const Parameter& parameter = *entry.parameter;
    shard.parameter = &parameter;
    shard.main = flat(parameter.main);
    shard.grad = flat(parameter.grad);
    const bool own = parameter.compute.arg().address != parameter.main.arg().address;
    shard.compute = own ? flat(parameter.compute) : Tensor();
    shard.state.clear();
    for (const Tensor& state : entry.state) shard.state.push_back(flat(state));
    rule_->update(cx, shard, entry.hyper, scalars);
  }
}

std::vector<NamedState> Replicated::state() {
  std::vector<NamedState> out;
  for (const Entry& entry : entries_) {
    for (std::size_t s = 0; s < specs_.size(); ++s) {
      const Tensor all = flat(entry.state[s]);
      out.push_back({specs_[s].name, entry.parameter, {0, all.elements()}, all});
    }
  }
  return out;
}

}  // namespace tessera
