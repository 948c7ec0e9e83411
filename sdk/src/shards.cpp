#include "tessera/shards.hpp"

#include "tessera/operation.hpp"
#include "tessera/ops/elementwise.hpp"

namespace tessera {

namespace {

Tensor allocate_flat(Device& device, const Shape& shape, DType dtype) {
  return Tensor::allocate(
      device, device.pool(), device.stream(), shape, dtype, Category::optimizer);
}

}  // namespace

Tensor Shards::part(const Tensor& flat, std::size_t index) const {
  const Shard& shard = list.at(index);
  return flat.slice(0, shard.begin, shard.range.length);
}

void Shards::allocate(Device& device, std::size_t states, std::optional<DType> dtype) {
  ranges = range_table(device, list);
  hyper = allocate_flat(device, {static_cast<i64>(list.size()), 2}, DType::fp64);
  std::vector<double> values;
  for (const Shard& shard : list) {
    values.push_back(shard.hyper.lr_scale);
    values.push_back(shard.hyper.weight_decay);
  }
  device.write(hyper, values.data());
  const Operation<FillArgs> fill(device);
  for (std::size_t i = 0; i < states; ++i) {
    state.push_back(allocate_flat(device, main.shape(), dtype.value_or(main.dtype())));
    fill.launch(device.stream(), device.pool(), {state.back().arg(), 0});
  }
}

std::vector<Shard> whole_shards(const ParameterMemory& memory) {
  std::vector<Shard> shards;
  for (const ParameterBucket& bucket : memory.buckets()) {
    for (const auto& [parameter, begin] : bucket.members) {
      shards.push_back({parameter, {0, parameter->local.elements()}, bucket.begin + begin, {}});
    }
  }
  return shards;
}

Tensor range_table(Device& device, const std::vector<Shard>& shards) {
  std::vector<i64> values;
  for (const Shard& shard : shards) {
    values.push_back(shard.begin);
    values.push_back(shard.range.length);
  }
  const Tensor table = allocate_flat(device, {static_cast<i64>(shards.size()), 2}, DType::i64);
  device.write(table, values.data());
  return table;
}

}  // namespace tessera
