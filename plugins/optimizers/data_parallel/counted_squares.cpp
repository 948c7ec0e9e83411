#include "counted_squares.hpp"

#include <algorithm>
#include <vector>

#include "tessera/ops.hpp"

namespace tessera {

CountedSquares::CountedSquares(Device& device,
                               std::span<Parameter* const> parameters,
                               const ParameterMemory& memory)
    : gradients_(memory.gradients()) {
  const std::vector<Shard> all = whole_shards(memory);
  std::vector<Shard> dense, experts;
  for (const Parameter* parameter : parameters) {
    if (!parameter->layout.counted()) continue;
    std::vector<Shard>& of = parameter->layout.expert() ? experts : dense;
    of.push_back(*std::ranges::find(all, parameter, &Shard::parameter));
  }
  if (!dense.empty()) dense_ = range_table(device, dense);
  if (!experts.empty()) experts_ = range_table(device, experts);
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
