#include "tessera/shards.hpp"

#include <utility>

#include "tessera/error.hpp"
#include "tessera/operation.hpp"
#include "tessera/ops/elementwise.hpp"
#include "tessera/optimizer.hpp"

namespace tessera {

namespace {

constexpr i64 kAlignment = 64;  // elements; that of BucketRules

Tensor allocate_flat(Device& device, const Shape& shape, DType dtype) {
  return Tensor::allocate(
      device, device.pool(), device.stream(), shape, dtype, Category::optimizer);
}

template <class T>
Tensor table(Device& device, const std::vector<T>& values, i64 columns, DType dtype) {
  const Tensor made =
      allocate_flat(device, {static_cast<i64>(values.size()) / columns, columns}, dtype);
  device.write(made, values.data());
  return made;
}

i64 aligned(i64 elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

Tensor filled(Device& device, i64 elements, DType dtype, double value) {
  const Tensor made = allocate_flat(device, {elements}, dtype);
  const Operation<FillArgs> fill(device);
  fill.launch(device.stream(), device.pool(), {made.arg(), value});
  return made;
}

}  // namespace

std::shared_ptr<const LogicalTensor> own_state(const StateSpec& spec,
                                               const Parameter& parameter,
                                               const Mesh& mesh) {
  if (spec.shape == nullptr) return nullptr;
  auto state = std::make_shared<LogicalTensor>();
  state->name = parameter.name + "/" + spec.name;
  try {
    state->layout = parameter.layout.of_state(spec.shape(parameter), mesh);
  } catch (const Error& error) {
    fail("the state \"{}\": {}", state->name, error.what());
  }
  state->logical = state->layout.logical();
  state->local = state->layout.storage();
  return state;
}

Hyper usual_hyper(const Parameter& parameter, double weight_decay) {
  const bool decays = !parameter.has_tag("bias") && !parameter.has_tag("norm");
  return {.weight_decay = decays ? weight_decay : 0};
}

Shards::Shards(const ParameterMemory& memory, std::vector<Shard> shards)
    : list(std::move(shards)),
      main(memory.main()),
      grad(memory.gradients()),
      compute(memory.compute()) {}

Tensor Shards::grad_of(std::size_t index) const {
  return grad.slice(0, list.at(index).grad, list[index].range.length);
}

Tensor Shards::main_of(std::size_t index) const {
  return main.slice(0, list.at(index).main, list[index].range.length);
}

Tensor Shards::state_of(std::size_t of, std::size_t index) const {
  if (has_own(of)) {
    const auto& [logical, begin] = own[of].at(index);
    return state.at(of).slice(0, begin, logical->local.elements()).view(logical->local);
  }
  return state.at(of).slice(0, list.at(index).state, list[index].range.length);
}

void Shards::allocate(Device& device,
                      const Mesh& mesh,
                      std::span<const StateSpec> states,
                      std::optional<DType> dtype) {
  const i64 elements = place(device);
  const DType type = dtype.value_or(main.dtype());
  for (const StateSpec& spec : states) {
    Tensor& made = state.emplace_back();
    std::vector<Own>& tensors = own.emplace_back();
    if (list.empty() || (spec.of != nullptr && !spec.of(*list[0].parameter))) continue;
    i64 end = 0;
    for (const Shard& shard : list) {
      if (spec.shape == nullptr) break;
      require(shard.range.length == shard.parameter->local.elements(),
              "the state \"{}\" of {} has a shape of its own, and this rank updates a part of the "
              "parameter: the rule needs `static constexpr bool kWholeParameters = true`",
              spec.name,
              shard.parameter->name);
      tensors.push_back({own_state(spec, *shard.parameter, mesh), aligned(end)});
      end = tensors.back().begin + tensors.back().logical->local.elements();
    }
    made = filled(device, spec.shape == nullptr ? elements : end, type, spec.initial);
  }
}

void Shards::allocate(Device& device, std::size_t states, std::optional<DType> dtype) {
  const i64 elements = place(device);
  while (state.size() < states) {
    state.push_back(filled(device, elements, dtype.value_or(main.dtype()), 0));
  }
}

// Fills `ranges` and `hyper`; the elements of a state of the parameters' shapes.
i64 Shards::place(Device& device) {
  std::vector<i64> places;
  std::vector<double> hypers;
  i64 elements = 0;
  for (Shard& shard : list) {
    shard.state = aligned(elements);
    elements = shard.state + shard.range.length;
    places.insert(places.end(), {shard.range.length, shard.grad, shard.main, shard.state});
    hypers.insert(hypers.end(), {shard.hyper.lr_scale, shard.hyper.weight_decay});
  }
  ranges = table(device, places, 4, DType::i64);
  hyper = table(device, hypers, 2, DType::fp64);
  return elements;
}

NamedState named_state(const Shards& shards,
                       std::size_t index,
                       const StateSpec& spec,
                       std::size_t state,
                       StateHolders holders) {
  const Shard& shard = shards.list.at(index);
  NamedState named{spec.name, shard.parameter, shard.range, {}, holders};
  named.tensor = shards.state_of(state, index);
  if (shards.has_own(state)) {
    named.own = shards.own[state][index].logical;
    named.range = {0, named.own->local.elements()};
    named.tensor = named.tensor.view({named.range.length});
  }
  return named;
}

std::vector<NamedState> named_states(const Shards& shards,
                                     std::span<const StateSpec> specs,
                                     StateHolders holders) {
  std::vector<NamedState> all;
  for (std::size_t i = 0; i < shards.list.size(); ++i) {
    for (std::size_t s = 0; s < specs.size(); ++s) {
      all.push_back(named_state(shards, i, specs[s], s, holders));
    }
  }
  return all;
}

std::vector<Shard> own_shards(const ParameterMemory& memory) {
  std::vector<Shard> shards;
  for (const ParameterBucket& bucket : memory.buckets()) {
    for (const ParameterBucket::Member& member : bucket.members) {
      const ShardRanges ranges = shard_ranges(bucket, member, bucket.own);
      if (ranges.param.length == 0) continue;
      shards.push_back({.parameter = member.parameter,
                        .range = ranges.param,
                        .grad = ranges.world.begin,
                        .main = memory.main_begin(bucket, ranges)});
    }
  }
  return shards;
}

}  // namespace tessera
