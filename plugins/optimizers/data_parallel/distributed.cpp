#include "distributed.hpp"

#include <algorithm>

#include "tessera/ops.hpp"

namespace tessera {

namespace {

bool has_whole_parameters(const ParameterMemory& memory) {
  return std::ranges::any_of(memory.buckets(), [](const ParameterBucket& bucket) {
    return bucket.members.front().shard != ParameterBucket::kCut;
  });
}

// The ranges of the rank's memory that are in none of its own shards, as few as possible.
std::vector<FlatRange> outside(const ParameterMemory& memory) {
  std::vector<FlatRange> ranges;
  const auto add = [&](i64 begin, i64 end) {
    if (begin == end) return;
    const bool goes_on = !ranges.empty() && ranges.back().begin + ranges.back().length == begin;
    if (!goes_on) ranges.push_back({begin, 0});
    ranges.back().length = end - ranges.back().begin;
  };
  for (const ParameterBucket& bucket : memory.buckets()) {
    i64 end = bucket.begin;  // of what was looked at
    const auto own = [&](i64 begin, i64 length) {
      add(end, bucket.begin + begin);
      end = bucket.begin + begin + length;
    };
    if (bucket.members.front().shard == ParameterBucket::kCut) {
      own(bucket.own_shard().begin, bucket.own_shard().length);
    }
    for (const ParameterBucket::Member& member : bucket.members) {
      if (member.shard == bucket.own) own(member.begin, member.parameter->local.elements());
    }
    add(end, bucket.begin + bucket.elements);
  }
  return ranges;
}

}  // namespace

Distributed::Distributed(const Config& config, OptimizerArguments& arguments)
    : GroupedOptimizer(config, arguments, "distributed", StateHolders::this_rank) {
  const ParameterMemory& memory = *arguments.memory;
  if (!has_whole_parameters(memory)) norm_ = std::make_unique<ShardNorm>(arguments);
  for (const FlatRange& range : outside(memory)) {
    others_.push_back(memory.gradients().slice(0, range.begin, range.length));
  }
}

void Distributed::do_sum_squares(Context& cx, const Tensor& out) {
  if (norm_ != nullptr) return norm_->add(cx, out);
  sum_all_squares(cx, out);
}

void Distributed::do_step(Context& cx, const Tensor& scalars) {
  update(cx, scalars);
  for (const Tensor& other : others_) {
    ops::run(cx, FillArgs{other.arg(), 0});
  }
}

}  // namespace tessera
