#include "replicated.hpp"

#include <algorithm>

namespace tessera {

Replicated::Replicated(const Config& config, OptimizerArguments& arguments)
    : GroupedOptimizer(config, arguments, "replicated") {
  Device& device = *arguments.device;
  const ParameterMemory& memory = *arguments.memory;
  shards_.main = memory.main();
  shards_.compute = memory.compute();
  shards_.grad = memory.gradients();
  shards_.list = whole_shards(memory);
  for (const Parameter* parameter : parameters()) {
    const auto shard = std::ranges::find(shards_.list, parameter, &Shard::parameter);
    shard->hyper = hyper(parameter);
    model_order_.push_back(static_cast<std::size_t>(shard - shards_.list.begin()));
  }
  shards_.allocate(device, states().size(), state_dtype());
  counted_ = CountedSquares(device, parameters(), memory);
}

void Replicated::sum_squares(Context& cx, const Tensor& out) { counted_.add(cx, out); }

void Replicated::step(Context& cx, const Tensor& scalars) { rule().update(cx, shards_, scalars); }

std::vector<NamedState> Replicated::state() {
  std::vector<NamedState> out;
  for (const std::size_t i : model_order_) {
    const Shard& shard = shards_.list[i];
    for (std::size_t s = 0; s < states().size(); ++s) {
      out.push_back(
          {states()[s].name, shard.parameter, shard.range, shards_.part(shards_.state[s], i)});
    }
  }
  return out;
}

}  // namespace tessera
