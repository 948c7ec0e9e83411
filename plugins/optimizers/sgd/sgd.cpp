#include "sgd.hpp"

#include "tessera/ops.hpp"

namespace tessera {

void Sgd::Config::describe(Schema<Config>& s) {
  s.field("momentum",
          &Config::momentum,
          "part of the earlier updates that goes on; 0: none, and no state is kept")
      .at_least(0)
      .below(1)
      .megatron("--sgd-momentum");
  s.field("weight_decay",
          &Config::weight_decay,
          "part of a weight that decays, times the learning rate; not of biases and norms")
      .at_least(0)
      .megatron("--weight-decay");
}

std::vector<StateSpec> Sgd::do_state() const {
  if (config_.momentum == 0) return {};
  return {{"momentum_buffer", nullptr, config_.momentum}};
}

void Sgd::do_update(Context& cx, const Shards& shards, const Tensor& scalars) const {
  auto args = update_args<SgdArgs>(shards, scalars);
  if (!shards.state.empty()) args.momentum_buffer = shards.state[0].arg();
  args.momentum = config_.momentum;
  ops::run(cx, args);
}

}  // namespace tessera
