#include "shard_norm.hpp"

#include <algorithm>
#include <map>

#include "tessera/ops.hpp"

namespace tessera {

namespace {

Tensor allocate(Device& device, const Shape& shape, DType dtype) {
  return Tensor::allocate(
      device, device.pool(), device.stream(), shape, dtype, Category::optimizer);
}

Tensor table(Device& device, const std::vector<i64>& values, i64 columns) {
  const Tensor made =
      allocate(device, {static_cast<i64>(values.size()) / columns, columns}, DType::i64);
  device.write(made, values.data());
  return made;
}

struct Place {
  const ParameterBucket* bucket;
  i64 begin;
};

std::map<const Parameter*, Place> places_of(const ParameterMemory& memory) {
  std::map<const Parameter*, Place> places;
  for (const ParameterBucket& bucket : memory.buckets()) {
    for (const auto& member : bucket.members) places[member.parameter] = {&bucket, member.begin};
  }
  return places;
}

}  // namespace

ShardNorm::ShardNorm(const OptimizerArguments& arguments)
    : gradients_(arguments.memory->gradients()) {
  const std::map<const Parameter*, Place> places = places_of(*arguments.memory);
  std::map<const Parameter*, FlatRange> blocks_of;
  std::vector<i64> own;
  i64 blocks = 0;
  for (const bool expert : {false, true}) {
    Replicas of;
    of.first = blocks;
    for (const Parameter* p : arguments.parameters) {
      if (!p->layout.counted() || p->layout.expert() != expert) continue;
      of.group = &p->layout.replicas(*arguments.mesh);
      const auto [bucket, begin] = places.at(p);
      const i64 elements = p->local.elements(), first = blocks;
      for (i64 i = 0; i < elements; i += kSquareBlock, ++blocks) {
        const FlatRange block{begin + i, std::min(kSquareBlock, elements - i)};
        add_block(of, *bucket, block, blocks, own);
      }
      blocks_of[p] = {first, blocks - first};
    }
    of.blocks = blocks - of.first;
    if (of.blocks > 0) replicas_.push_back(std::move(of));
  }
  own_ = table(*arguments.device, own, 3);
  for (const bool expert : {false, true}) {
    std::vector<i64> ranges;
    for (const Parameter* p : arguments.parameters) {
      if (!p->layout.counted() || p->layout.expert() != expert) continue;
      ranges.push_back(blocks_of.at(p).begin);
      ranges.push_back(blocks_of.at(p).length);
    }
    if (!ranges.empty()) (expert ? experts_ : dense_) = table(*arguments.device, ranges, 2);
  }
  sums_ = allocate(*arguments.device, {blocks}, DType::fp64);
}

void ShardNorm::add_block(Replicas& of,
                          const ParameterBucket& bucket,
                          const FlatRange& block,
                          i64 place,
                          std::vector<i64>& own) const {
  const i64 shard = bucket.shard(0).length, end = block.begin + block.length;
  const i64 owner = block.begin / shard, here = bucket.own;
  if (owner == here) own.insert(own.end(), {bucket.begin + block.begin, block.length, place});
  for (i64 other = owner + 1; other * shard < end; ++other) {
    const i64 begin = other * shard;
    const Tensor part = gradients_.slice(0, bucket.begin + begin, std::min(end - begin, shard));
    if (other == here) of.sends.push_back({static_cast<int>(owner), part});
    if (owner == here) of.receives.push_back({static_cast<int>(other), part});
  }
}

void ShardNorm::add(Context& cx, const Tensor& out) const {
  for (const Replicas& of : replicas_) {
    of.group->exchange(*cx.stream, of.sends, of.receives, "blocks of the gradient norm")
        .wait(*cx.stream);
  }
  ops::run(cx, FillArgs{sums_.arg(), 0});
  BlockSquaresArgs squares{gradients_.arg(), own_.arg(), sums_.arg()};
  ops::run(cx, squares);
  for (const Replicas& of : replicas_) {
    of.group
        ->all_reduce(*cx.stream,
                     sums_.slice(0, of.first, of.blocks),
                     ReduceOp::sum,
                     "squares of the gradient norm")
        .wait(*cx.stream);
  }
  const Tensor* const ranges[] = {&dense_, &experts_};
  for (int i = 0; i < 2; ++i) {
    if (!ranges[i]->defined()) continue;
    ops::run(cx, SumBlocksArgs{sums_.arg(), ranges[i]->arg(), out.slice(0, i, 1).arg()});
  }
}

}  // namespace tessera
