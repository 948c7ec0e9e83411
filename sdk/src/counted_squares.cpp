#include "tessera/counted_squares.hpp"

#include <map>
#include <vector>

#include "tessera/ops.hpp"

namespace tessera {

namespace {

// [n, 2]: begin and length of each. Undefined where there are none: without ranges the operation
// would take all gradients.
Tensor table(Device& device, const std::vector<i64>& ranges) {
  if (ranges.empty()) return {};
  const Shape shape = {static_cast<i64>(ranges.size()) / 2, 2};
  const Tensor made = Tensor::allocate(
      device, device.pool(), device.stream(), shape, DType::i64, Category::optimizer);
  device.write(made, ranges.data());
  return made;
}

}  // namespace

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
  std::vector<i64> dense, experts;
  for (const Parameter* parameter : parameters) {
    if (!parameter->layout.counted()) continue;
    std::vector<i64>& of = parameter->layout.expert() ? experts : dense;
    of.insert(of.end(), {places.at(parameter), parameter->local.elements()});
  }
  dense_ = table(device, dense);
  experts_ = table(device, experts);
}

void CountedSquares::add(Context& cx, const Tensor& out) const {
  const Tensor* const ranges[] = {&dense_, &experts_};
  for (int i = 0; i < 2; ++i) {
    if (!ranges[i]->defined()) continue;
    ops::run(cx, SumSquaresArgs{gradients_.arg(), ranges[i]->arg(), out.slice(0, i, 1).arg()});
  }
}

}  // namespace tessera
