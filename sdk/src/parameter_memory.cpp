#include "tessera/base/parameter_memory.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

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

BucketRules BucketRules::of(const Mesh& mesh, i64 elements, bool sharded, bool whole) {
  BucketRules rules{.elements = elements, .whole = sharded && whole};
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
  if (rules.whole) share_out(parameters, rules.alignment);
}

// Each parameter goes to the replica that has the fewest elements so far, the largest first.
// Replicas of dense parameters and of experts are other groups; a rank has its dense ones first.
void ParameterMemory::share_out(std::span<Parameter* const> parameters, i64 alignment) {
  std::map<const Parameter*, std::pair<ParameterBucket*, ParameterBucket::Member*>> places;
  std::map<bool, std::vector<i64>> loads, ends;  // of dense parameters and of experts, by replica
  std::map<bool, i64> own;
  for (ParameterBucket& bucket : buckets_) {
    const bool expert = bucket.members[0].parameter->layout.expert();
    loads[expert].resize(static_cast<std::size_t>(bucket.shards));
    ends[expert].resize(static_cast<std::size_t>(bucket.shards));
    own[expert] = bucket.own;
    for (ParameterBucket::Member& member : bucket.members) {
      places[member.parameter] = {&bucket, &member};
    }
  }
  std::vector<Parameter*> order(parameters.begin(), parameters.end());
  std::ranges::stable_sort(
      order, std::greater<>(), [](const Parameter* p) { return p->local.elements(); });
  for (const Parameter* parameter : order) {
    std::vector<i64>& load = loads[parameter->layout.expert()];
    const auto least = std::ranges::min_element(load);
    places.at(parameter).second->shard = least - load.begin();
    *least += parameter->local.elements();
  }
  for (ParameterBucket& bucket : buckets_) {
    for (ParameterBucket::Member& member : bucket.members) {
      const Parameter& parameter = *member.parameter;
      i64& end = ends[parameter.layout.expert()][static_cast<std::size_t>(member.shard)];
      member.shard_begin = end;
      end += round_up(parameter.local.elements(), alignment);
    }
  }
  own_elements_ = 0;
  for (const bool expert : {false, true}) {
    if (!ends.contains(expert)) continue;
    for (ParameterBucket& bucket : buckets_) {
      if (bucket.members[0].parameter->layout.expert() == expert) bucket.own_begin = own_elements_;
    }
    own_elements_ += ends[expert][static_cast<std::size_t>(own[expert])];
  }
}

void ParameterMemory::place(const Tensor& flat, Tensor Parameter::*form) const {
  for (const ParameterBucket& bucket : buckets_) {
    for (const ParameterBucket::Member& member : bucket.members) {
      const Shape& local = member.parameter->local;
      member.parameter->*form =
          flat.slice(0, bucket.begin + member.begin, local.elements()).view(local);
    }
  }
}

void ParameterMemory::allocate_values(Device& device, DType main, DType compute) {
  const bool shards_only = compute != main && own_elements_ < elements_;
  main_ = allocate(device, shards_only ? own_elements_ : elements_, main, Category::parameters);
  if (compute != main) compute_ = allocate(device, elements_, compute, Category::parameters);
  place(compute_.defined() ? compute_ : main_, &Parameter::compute);
  if (!shards_only) return place(main_, &Parameter::main);
  for (const ParameterBucket& bucket : buckets_) {
    for (const ParameterBucket::Member& member : bucket.members) {
      if (member.shard != bucket.own) continue;  // cut, or another's
      Parameter& parameter = *member.parameter;
      const i64 begin = bucket.own_begin + member.shard_begin;
      parameter.main = main_.slice(0, begin, parameter.local.elements()).view(parameter.local);
    }
  }
}

i64 ParameterMemory::main_begin(const ParameterBucket& bucket, const ShardRanges& ranges) const {
  return has_all_main() ? ranges.world.begin : bucket.own_begin + ranges.local.begin;
}

void ParameterMemory::allocate_gradients(Device& device) {
  gradients_ = allocate(device, elements_, main_.dtype(), Category::gradients);
  place(gradients_, &Parameter::grad);
}

ShardRanges shard_ranges(const ParameterBucket& bucket,
                         const ParameterBucket::Member& member,
                         i64 shard) {
  if (member.shard != ParameterBucket::kCut) {
    if (member.shard != shard) return {};
    const i64 length = member.parameter->local.elements();
    return {.world = {bucket.begin + member.begin, length},
            .local = {member.shard_begin, length},
            .param = {0, length},
            .bucket = {member.begin, length}};
  }
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
