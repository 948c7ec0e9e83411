#include "counted_squares.hpp"

#include <map>
#include <vector>

#include "tessera/ops.hpp"
#include "tessera/shards.hpp"

namespace tessera {

CountedSquares::CountedSquares(Device& device,
                               std::span<Parameter* const> parameters,
                               const ParameterMemory& memory)
    : gradients_(memory.gradients()) {
  std::map<const Parameter*, i64> places;
  for (const ParameterBucket& bucket : memory.buckets()) {
    for (const ParameterBucket::Member& member : bucket.members) {
      places[member.parameter] = bucket.begin + member.begin;
    }
  }
  std::vector<Shard> dense, experts;
  for (const Parameter* parameter : parameters) {
    if (!parameter->layout.counted()) continue;
    std::vector<Shard>& of = parameter->layout.expert() ? experts : dense;
    of.push_back({parameter, {0, parameter->local.elements()}, places.at(parameter)});
  }
  if (!dense.empty()) dense_ = gradient_ranges(device, dense);
  if (!experts.empty()) experts_ = gradient_ranges(device, experts);
}

void CountedSquares::add(Context& cx, const Tensor& out) const {
  const Tensor* const ranges[] = {&dense_, &experts_};
  for (int i = 0; i < 2; ++i) {
    if (!ranges[i]->defined()) continue;
    SumSquaresArgs args{gradients_.arg(), ranges[i]->arg(), out.slice(0, i, 1).arg()};
    ops::run(cx, args);
  }
}

}  // namespace tessera
