#include "distributed.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

// Each parameter goes to the replica that has the fewest elements so far, the largest first.
std::vector<int> dealt_out(const ParameterMemory& memory, std::span<Parameter* const> parameters) {
  std::map<const Parameter*, const ParameterBucket*> bucket_of;
  for (const ParameterBucket& bucket : memory.buckets()) {
    for (const auto& member : bucket.members) bucket_of[member.parameter] = &bucket;
  }
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, std::greater<>(), [&](std::size_t i) { return parameters[i]->local.elements(); });
  std::map<bool, std::vector<i64>> loads;  // of dense parameters and of experts, by replica
  std::vector<int> owners(parameters.size());
  for (const std::size_t i : order) {
    std::vector<i64>& load = loads[parameters[i]->layout.expert()];
    load.resize(static_cast<std::size_t>(bucket_of.at(parameters[i])->shards));
    const auto least = std::ranges::min_element(load);
    *least += parameters[i]->local.elements();
    owners[i] = static_cast<int>(least - load.begin());
  }
  return owners;
}

}  // namespace

Distributed::Distributed(const Config& config, OptimizerArguments& arguments)
    : GroupedOptimizer(config, arguments, "distributed") {
  Device& device = *arguments.device;
  const ParameterMemory& memory = *arguments.memory;
  if (rule().needs() == Needs::elements) {
    norm_ = std::make_unique<ShardNorm>(arguments);
    for (const ParameterBucket& bucket : memory.buckets()) take_shards(arguments, bucket);
  } else {
    if (memory.main().elements() != memory.elements()) {
      fail_config(
          "optimizer.type = \"distributed\" keeps main values in shards, and optimizer.rule = "
          "\"{}\" must see each parameter whole; set optimizer.type = \"replicated\"",
          config.rule.type);
    }
    share_out(arguments);
  }
  nothing_ = Tensor::allocate(
      device, device.pool(), device.stream(), {0}, state_dtype(), Category::optimizer);
}

void Distributed::take_shards(const OptimizerArguments& arguments, const ParameterBucket& from) {
  const ParameterMemory& memory = *arguments.memory;
  const FlatRange own = from.own_shard();
  const i64 begin = from.begin + own.begin, end = begin + own.length;
  for (const auto& [first, last] :
       {std::pair(from.begin, begin), std::pair(end, from.begin + from.elements)}) {
    if (first < last) others_.push_back(memory.gradients().slice(0, first, last - first));
  }
  Shards shards;
  for (const ParameterBucket::Member& member : from.members) {
    const ShardRanges ranges = shard_ranges(from, member, from.own);
    if (ranges.param.length == 0) continue;
    shards.list.push_back(
        {member.parameter, ranges.param, ranges.local.begin, hyper(member.parameter)});
  }
  if (shards.list.empty()) return;  // padding
  shards.main = memory.own_main(from);
  shards.grad = memory.own_part(from, memory.gradients());
  if (memory.compute().defined()) shards.compute = memory.own_part(from, memory.compute());
  shards.allocate(*arguments.device, states().size(), state_dtype());
  shards_.push_back(std::move(shards));
}

void Distributed::share_out(const OptimizerArguments& arguments) {
  const ParameterMemory& memory = *arguments.memory;
  owners_ = dealt_out(memory, parameters());
  for (const ParameterBucket& bucket : memory.buckets()) take_whole(arguments, bucket);
  counted_ = CountedSquares(*arguments.device, parameters(), memory);
}

void Distributed::take_whole(const OptimizerArguments& arguments, const ParameterBucket& from) {
  const ParameterMemory& memory = *arguments.memory;
  for (const auto& [parameter, begin] : from.members) {
    const i64 first = from.begin + begin, elements = parameter->local.elements();
    const Tensor gradient = memory.gradients().slice(0, first, elements);
    const auto index = std::ranges::find(parameters(), parameter) - parameters().begin();
    if (owners_[static_cast<std::size_t>(index)] != from.own) {
      others_.push_back(gradient);
      continue;
    }
    Shards& shards = shards_.emplace_back();
    shards.main = memory.main().slice(0, first, elements);
    shards.grad = gradient;
    if (memory.compute().defined()) shards.compute = memory.compute().slice(0, first, elements);
    shards.list = {{parameter, {0, elements}, 0, hyper(parameter)}};
    shards.allocate(*arguments.device, states().size(), state_dtype());
  }
}

void Distributed::sum_squares(Context& cx, const Tensor& out) {
  if (norm_ != nullptr) return norm_->add(cx, out);
  counted_.add(cx, out);
}

void Distributed::step(Context& cx, const Tensor& scalars) {
  for (const Shards& shards : shards_) rule().update(cx, shards, scalars);
  for (const Tensor& other : others_) {
    FillArgs zero{other.arg(), 0};
    ops::run(cx, zero);
  }
}

// Of every parameter, so that all ranks name the same states: of many this rank has no element.
std::vector<NamedState> Distributed::state() {
  std::vector<NamedState> out;
  for (const Parameter* parameter : parameters()) {
    const Shards* owner = nullptr;
    std::size_t index = 0;
    for (const Shards& shards : shards_) {
      const auto found = std::ranges::find(shards.list, parameter, &Shard::parameter);
      if (found == shards.list.end()) continue;
      owner = &shards;
      index = static_cast<std::size_t>(found - shards.list.begin());
    }
    for (std::size_t s = 0; s < states().size(); ++s) {
      const bool any = owner != nullptr;
      out.push_back({states()[s].name,
                     parameter,
                     any ? owner->list[index].range : FlatRange{},
                     any ? owner->part(owner->state[s], index) : nothing_,
                     StateHolders::this_rank});
    }
  }
  return out;
}

}  // namespace tessera
