#include "tessera/parameter_memory.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/error.hpp"
#include "tessera/mesh.hpp"

namespace tessera {

namespace {

i64 round_up(i64 elements, i64 multiple) { return (elements + multiple - 1) / multiple * multiple; }

// One shard for each member of this rank's group, in group order.
BucketCut cut_over(const Mesh& mesh, std::string_view axes) {
  for (const std::vector<i64>& members : mesh.ranks().groups(axes)) {
    const auto here = std::ranges::find(members, mesh.rank());
    if (here == members.end()) continue;
    return {static_cast<i64>(members.size()), here - members.begin()};
  }
  fail("rank {} is in no group over {}", mesh.rank(), axes);
}

bool summed_alike(const ParameterLayout& a, const ParameterLayout& b) {
  return !a.shared() && !b.shared() && a.expert() == b.expert() && a.partial() == b.partial();
}

Tensor allocate(Device& device, i64 elements, DType dtype, Category category) {
  return Tensor::allocate(device, device.pool(), device.stream(), {elements}, dtype, category);
}

}  // namespace

BucketRules BucketRules::of(const Mesh& mesh, i64 elements, bool sharded) {
  BucketRules rules{.elements = elements};
  if (!sharded) return rules;
  rules.dense = cut_over(mesh, "dp-cp");
  rules.experts = cut_over(mesh, "edp");
  return rules;
}

ParameterMemory::ParameterMemory(std::span<Parameter* const> parameters, const BucketRules& rules) {
  for (std::size_t i = parameters.size(); i-- > 0;) {
    Parameter* parameter = parameters[i];
    auto bucket = std::ranges::find_if(buckets_, [&](const ParameterBucket& b) {
      return b.elements < rules.elements &&
             summed_alike(b.members[0].parameter->layout, parameter->layout);
    });
    if (bucket == buckets_.end()) bucket = buckets_.insert(bucket, ParameterBucket{});
    const i64 begin = round_up(bucket->elements, rules.alignment);
    bucket->members.push_back({parameter, begin});
    bucket->elements = begin + parameter->local.elements();
  }
  for (ParameterBucket& bucket : buckets_) {
    const bool expert = bucket.members[0].parameter->layout.expert();
    const BucketCut cut = expert ? rules.experts : rules.dense;
    bucket.shards = std::max<i64>(1, cut.shards);
    bucket.own = cut.own;
    const i64 multiple = cut.shards > 0 ? std::lcm(cut.shards, rules.pad) : rules.alignment;
    bucket.elements = round_up(bucket.elements, multiple);
    bucket.begin = elements_;
    bucket.own_begin = own_elements_;
    elements_ += bucket.elements;
    own_elements_ += bucket.own_shard().length;
  }
}

void ParameterMemory::place(const Tensor& flat, Tensor Parameter::*form) const {
  for (const ParameterBucket& bucket : buckets_) {
    for (const auto& [parameter, begin] : bucket.members) {
      parameter->*form =
          flat.slice(0, bucket.begin + begin, parameter->local.elements()).view(parameter->local);
    }
  }
}

void ParameterMemory::allocate_values(Device& device, DType main, DType compute) {
  const bool shards_only = compute != main && own_elements_ < elements_;
  main_ = allocate(device, shards_only ? own_elements_ : elements_, main, Category::parameters);
  if (compute != main) compute_ = allocate(device, elements_, compute, Category::parameters);
  if (!shards_only) place(main_, &Parameter::main);
  place(compute_.defined() ? compute_ : main_, &Parameter::compute);
}

Tensor ParameterMemory::own_part(const ParameterBucket& bucket, const Tensor& form) const {
  const FlatRange own = bucket.own_shard();
  return form.slice(0, bucket.begin + own.begin, own.length);
}

Tensor ParameterMemory::own_main(const ParameterBucket& bucket) const {
  if (main_.elements() == elements_) return own_part(bucket, main_);
  return main_.slice(0, bucket.own_begin, bucket.own_shard().length);
}

void ParameterMemory::allocate_gradients(Device& device) {
  gradients_ = allocate(device, elements_, main_.dtype(), Category::gradients);
  place(gradients_, &Parameter::grad);
}

ShardRanges shard_ranges(const ParameterBucket& bucket,
                         const ParameterBucket::Member& member,
                         i64 shard) {
  const FlatRange own = bucket.shard(shard);
  const i64 begin = std::max(own.begin, member.begin);
  const i64 end =
      std::min(own.begin + own.length, member.begin + member.parameter->local.elements());
  if (begin >= end) return {};
  const i64 length = end - begin;
  return {.world = {bucket.begin + begin, length},
          .local = {begin - own.begin, length},
          .param = {begin - member.begin, length},
          .bucket = {begin, length}};
}

}  // namespace tessera
