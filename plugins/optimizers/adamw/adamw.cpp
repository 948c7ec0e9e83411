#include "adamw.hpp"

#include "tessera/ops.hpp"

namespace tessera {

void AdamW::Config::describe(Schema<Config>& s) {
  s.field("beta1", &Config::beta1, "decay of the mean of gradients")
      .at_least(0)
      .below(1)
      .megatron("--adam-beta1");
  s.field("beta2", &Config::beta2, "decay of the mean of squared gradients")
      .at_least(0)
      .below(1)
      .megatron("--adam-beta2");
  s.field("eps", &Config::eps, "added to the root of the second moment")
      .above(0)
      .megatron("--adam-eps");
  s.field("weight_decay",
          &Config::weight_decay,
          "part of a weight that decays, times the learning rate; not of biases and norms")
      .at_least(0)
      .megatron("--weight-decay");
}

void AdamW::do_update(Context& cx, const Shards& shards, const Tensor& scalars) const {
  auto args = update_args<AdamWArgs>(shards, scalars);
  args.first_moment = shards.state[0].arg();
  args.second_moment = shards.state[1].arg();
  args.beta1 = config_.beta1;
  args.beta2 = config_.beta2;
  args.eps = config_.eps;
  ops::run(cx, args);
}

}  // namespace tessera
