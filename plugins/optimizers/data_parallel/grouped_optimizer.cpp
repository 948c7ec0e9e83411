#include "grouped_optimizer.hpp"

#include <functional>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/ops.hpp"
#include "tessera/process_group.hpp"
#include "tessera/types.hpp"

namespace tessera {

void OptimizerConfig::describe(Schema<OptimizerConfig>& s) {
  s.slot("rule", &OptimizerConfig::rule, "how one parameter is updated").megatron("--optimizer");
  s.field("clip",
          &OptimizerConfig::clip,
          "bound of the norm of all gradients: above it they are scaled down to it; 0: none")
      .at_least(0)
      .megatron("--clip-grad")
      .also("max_grad_norm");
  s.field("state_dtype",
          &OptimizerConfig::state_dtype,
          "dtype of the rule's state (moments); main: that of the main values. What is narrower is "
          "rounded when it is stored; bf16 needs betas of at most 0.996")
      .one_of({"main", "fp32", "bf16"})
      .megatron("--exp-avg-dtype")
      .also("--use-precision-aware-optimizer")
      .also("--exp-avg-sq-dtype", "is {} here, which is that of all moments");
  s.tables(
      "groups",
      &OptimizerConfig::groups,
      "parameters with hyperparameters of their own; a parameter belongs to one group at most");
}

GroupedOptimizer::GroupedOptimizer(const Config& config,
                                   OptimizerArguments& arguments,
                                   std::string_view type,
                                   StateHolders holders)
    : config_(config),
      rule_(arguments.make_rule(config.rule)),
      specs_(rule_->state()),
      holders_(holders),
      state_dtype_(config.state_dtype == "main" ? arguments.memory->main().dtype()
                                                : parse_dtype(config.state_dtype)),
      mesh_(arguments.mesh),
      parameters_(arguments.parameters.begin(), arguments.parameters.end()) {
  if (specs_.empty() && config.state_dtype != OptimizerConfig().state_dtype) {
    fail_config("optimizer.state_dtype has no effect: the rule keeps no state");
  }
  require_states_move();
  check_groups(arguments.model, config.groups);
  const std::vector<Hyper> hyper = hyper_of(parameters_, config.groups, rule_->weight_decay());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    check_parameter(*parameters_[i], *arguments.mesh, type);
    hyper_[parameters_[i]] = hyper[i];
  }
  take_shards(arguments);
}

void GroupedOptimizer::require_states_move() const {
  if (state_dtype_ != DType::bf16) return;
  constexpr double kHalfStep = 1.0 / 256;  // between 1 and the next number of bf16
  for (const StateSpec& state : specs_) {
    if (1 - state.keeps >= kHalfStep) continue;
    fail_config(
        "optimizer.state_dtype = \"bf16\": a step keeps {} of {}, and bf16 rounds such a small "
        "change away, so it would stop falling. Give the rule a beta of at most 0.996, or choose "
        "state_dtype = \"main\"",
        state.keeps,
        state.name);
  }
}

std::vector<bool> GroupedOptimizer::states_of(const Parameter& parameter) const {
  std::vector<bool> has;
  for (const StateSpec& spec : specs_) has.push_back(spec.of == nullptr || spec.of(parameter));
  return has;
}

// Does this rank stand for what it updates of the parameter, in a sum over all ranks?
bool GroupedOptimizer::counts(const Parameter& parameter) const {
  const ParameterLayout& layout = parameter.layout;
  return holders_ == StateHolders::this_rank ? layout.counted() : layout.saved();
}

void GroupedOptimizer::take_shards(const OptimizerArguments& arguments) {
  Device& device = *arguments.device;
  const ParameterMemory& memory = *arguments.memory;
  const auto allocate = [&](i64 elements, DType dtype) {
    return Tensor::allocate(
        device, device.pool(), device.stream(), {elements}, dtype, Category::optimizer);
  };
  const i64 sums = rule_->sums();
  if (sums > 0) sums_ = allocate(sums, DType::fp64);
  if (sums > 0) uncounted_ = allocate(sums, DType::fp64);
  std::map<std::vector<bool>, std::vector<Shard>, std::greater<>> sets;
  for (Shard& shard : own_shards(memory)) {
    shard.hyper = hyper_.at(shard.parameter);
    std::vector<bool> set = states_of(*shard.parameter);
    if (sums > 0) set.push_back(counts(*shard.parameter));
    sets[set].push_back(shard);
  }
  for (auto& [set, list] : sets) {
    Shards& shards = shards_.emplace_back(memory, std::move(list));
    shards.sums = sums_;
    shards.allocate(device, *arguments.mesh, specs_, state_dtype_);
  }
  counted_ = CountedSquares(device, parameters_, memory);
  nothing_ = allocate(0, state_dtype_);
}

// Ranks that update nothing take part too.
void GroupedOptimizer::add_sums(Context& cx, const Tensor& scalars) const {
  for (const Tensor& sums : {sums_, uncounted_}) {
    ops::run(cx, FillArgs{sums.arg(), 0});
  }
  for (const Shards& shards : shards_) {
    const bool counted = counts(*shards.list[0].parameter);
    rule_->add_sums(cx, shards, scalars, counted ? sums_ : uncounted_);
  }
  cx.mesh->world()
      .all_reduce(*cx.stream, sums_, ReduceOp::sum, "the update rule's sums")
      .wait(*cx.stream);
}

void GroupedOptimizer::update(Context& cx, const Tensor& scalars) const {
  if (sums_.defined()) add_sums(cx, scalars);
  for (const Shards& shards : shards_) rule_->update(cx, shards, scalars);
}

std::vector<NamedState> GroupedOptimizer::all_state() const {
  std::map<const Parameter*, std::pair<const Shards*, std::size_t>> here;
  for (const Shards& shards : shards_) {
    for (std::size_t i = 0; i < shards.list.size(); ++i) {
      here[shards.list[i].parameter] = {&shards, i};
    }
  }
  std::vector<NamedState> out;
  for (const Parameter* parameter : parameters_) {
    const auto found = here.find(parameter);
    const std::vector<bool> has = states_of(*parameter);
    for (std::size_t s = 0; s < specs_.size(); ++s) {
      if (!has[s]) continue;
      if (found == here.end()) {
        out.push_back({specs_[s].name,
                       parameter,
                       {},
                       nothing_,
                       holders_,
                       own_state(specs_[s], *parameter, *mesh_)});
        continue;
      }
      const auto& [shards, index] = found->second;
      out.push_back(named_state(*shards, index, specs_[s], s, holders_));
    }
  }
  return out;
}

void GroupedOptimizer::check_parameter(const Parameter& parameter,
                                       const Mesh& mesh,
                                       std::string_view type) const {
  for (int i = 0; i < kAxes; ++i) {
    const auto axis = static_cast<Axis>(i);
    const i64 parts = mesh.size(axis);
    if (parts == 1 || !parameter.layout.cut(axis)) continue;
    if (axis != Axis::tensor && axis != Axis::expert && axis != Axis::expert_tensor) {
      fail_config(
          "optimizer.type = \"{}\" keeps parameters that are whole or cut over tensor or expert "
          "parallelism; {} is cut {} ways over {}",
          type,
          parameter.name,
          parts,
          axis_name(axis));
    }
  }
}

}  // namespace tessera
