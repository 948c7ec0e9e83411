#include "tessera/shards.hpp"

#include "tessera/operation.hpp"
#include "tessera/ops/elementwise.hpp"

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

}  // namespace

Tensor Shards::grad_of(std::size_t index) const {
  return grad.slice(0, list.at(index).grad, list[index].range.length);
}

Tensor Shards::main_of(std::size_t index) const {
  return main.slice(0, list.at(index).main, list[index].range.length);
}

Tensor Shards::state_of(std::size_t of, std::size_t index) const {
  return state.at(of).slice(0, list.at(index).state, list[index].range.length);
}

void Shards::allocate(Device& device, const std::vector<bool>& states, std::optional<DType> dtype) {
  std::vector<i64> places;
  std::vector<double> hypers;
  i64 elements = 0;
  for (Shard& shard : list) {
    shard.state = (elements + kAlignment - 1) / kAlignment * kAlignment;
    elements = shard.state + shard.range.length;
    places.insert(places.end(), {shard.range.length, shard.grad, shard.main, shard.state});
    hypers.insert(hypers.end(), {shard.hyper.lr_scale, shard.hyper.weight_decay});
  }
  ranges = table(device, places, 4, DType::i64);
  hyper = table(device, hypers, 2, DType::fp64);
  const Operation<FillArgs> fill(device);
  for (const bool has : states) {
    Tensor& made = state.emplace_back();
    if (!has) continue;
    made = allocate_flat(device, {elements}, dtype.value_or(main.dtype()));
    fill.launch(device.stream(), device.pool(), {made.arg(), 0});
  }
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

Tensor gradient_ranges(Device& device, const std::vector<Shard>& shards) {
  std::vector<i64> values;
  for (const Shard& shard : shards) {
    values.insert(values.end(), {shard.grad, shard.range.length});
  }
  return table(device, values, 2, DType::i64);
}

}  // namespace tessera
