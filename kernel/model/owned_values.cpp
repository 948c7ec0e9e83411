#include "kernel/model/owned_values.hpp"

#include <algorithm>

#include "tessera/error.hpp"

namespace tessera {

OwnedValues owned_values(const ParameterMemory& memory, const Parameter& parameter) {
  const i64 elements = parameter.local.elements();
  if (parameter.main.defined()) return {{0, elements}, parameter.main.view({elements})};
  for (const ParameterBucket& bucket : memory.buckets()) {
    const auto member =
        std::ranges::find(bucket.members, &parameter, &ParameterBucket::Member::parameter);
    if (member == bucket.members.end()) continue;
    const ShardRanges ranges = shard_ranges(bucket, *member, bucket.own);
    if (ranges.param.length == 0) return {{}, memory.main().slice(0, 0, 0)};
    return {ranges.param,
            memory.main().slice(0, memory.main_begin(bucket, ranges), ranges.param.length)};
  }
  fail("the parameter \"{}\" is not in this memory", parameter.name);
}

}  // namespace tessera
