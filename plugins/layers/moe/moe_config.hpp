#pragma once
#include <string>

#include "tessera/dispatcher.hpp"
#include "tessera/plugin.hpp"
#include "tessera/router.hpp"

namespace tessera {

/// [model.block.mlp] of type "moe".
struct MoeConfig {
  i64 hidden = 0, layers = 1, experts = 0, top_k = 2;
  Auto<i64> ffn;
  std::string activation = "swiglu";
  double init_std = 0.02;
  i64 shared_ffn = 0;
  bool shared_gate = false, shared_overlap = false;
  Auto<double> capacity_factor;
  std::string capacity_scope = "sequence", drop = "weight";
  bool pad_to_capacity = false;
  double sequence_loss = 0, microbatch_loss = 0, global_loss = 0, z_loss = 0;
  Component<Router> router{"top_k", {}};
  Component<TokenDispatcher> dispatcher{"alltoall", {}};
  static void describe(Schema<MoeConfig>& s) {
    model_fields::hidden(s);
    model_fields::layers(s);
    s.field("experts", &MoeConfig::experts, "experts of the layer, cut over parallel.expert ranks")
        .required()
        .at_least(1)
        .at_most(kMostExperts)
        .megatron("--num-experts");
    s.field("top_k", &MoeConfig::top_k, "experts that a token goes to")
        .at_least(1)
        .at_most(kMostExperts)
        .structural()
        .megatron("--moe-router-topk");
    s.field("ffn",
            &MoeConfig::ffn,
            "inner features of an expert, cut over parallel.expert_tensor ranks; \"auto\": 4 × "
            "hidden")
        .at_least(1)
        .at_most(kMostInnerFeatures)
        .megatron("--moe-ffn-hidden-size");
    s.field("activation",
            &MoeConfig::activation,
            "between an expert's matrices; swiglu, geglu: the first has 2 × ffn columns, gate and "
            "up, and silu(gate) or gelu(gate) multiplies up; gelu is the tanh form")
        .one_of({"swiglu", "geglu", "gelu"})
        .structural();
    model_fields::init_std(s);
    s.field("sequence_loss",
            &MoeConfig::sequence_loss,
            "coefficient of the loss that balances the loads of each sequence")
        .at_least(0);
    s.field("microbatch_loss",
            &MoeConfig::microbatch_loss,
            "the same of each microbatch on the ranks of tensor × context; depends on batch.micro "
            "and the layout: not one loss curve")
        .at_least(0)
        .megatron("--moe-aux-loss-coeff")
        .also("--moe-router-load-balancing-type",
              "is the name of the coefficient in [model.block.mlp] here: microbatch_loss for "
              "aux_loss, sequence_loss for seq_aux_loss, global_loss for global_aux_loss");
    s.field("global_loss",
            &MoeConfig::global_loss,
            "the same with the loads of all ranks of a stage since the step began; depends on "
            "batch.micro and the layout: not one loss curve")
        .at_least(0);
    s.field("z_loss",
            &MoeConfig::z_loss,
            "coefficient of the mean squared log-sum-exp of the router's logits")
        .at_least(0)
        .megatron("--moe-z-loss-coeff");
    describe_shared(s);
    describe_capacity(s);
    s.slot("router", &MoeConfig::router, "chooses the experts of each token");
    s.slot("dispatcher", &MoeConfig::dispatcher, "carries rows to their experts and back")
        .megatron("--moe-token-dispatcher-type");
  }

 private:
  static void describe_shared(Schema<MoeConfig>& s) {
    s.field("shared_ffn",
            &MoeConfig::shared_ffn,
            "inner features of an MLP that every token goes through too, cut over "
            "parallel.tensor ranks; 0: none")
        .at_least(0)
        .at_most(kMostInnerFeatures)
        .megatron("--moe-shared-expert-intermediate-size");
    s.field("shared_gate",
            &MoeConfig::shared_gate,
            "multiply its result by the sigmoid of a product with each token")
        .structural()
        .megatron("--moe-shared-expert-gate");
    s.field("shared_overlap",
            &MoeConfig::shared_overlap,
            "compute one half of it while rows go to their experts, one while they come back")
        .megatron("--moe-shared-expert-overlap");
  }
  static void describe_capacity(Schema<MoeConfig>& s) {
    s.field("capacity_factor",
            &MoeConfig::capacity_factor,
            "an expert takes ceil(tokens · top_k / experts · this) choices, at most one of each "
            "token; others are dropped; \"none\": it takes all",
            "none")
        .above(0)
        .megatron("--moe-expert-capacity-factor");
    s.field("capacity_scope",
            &MoeConfig::capacity_scope,
            "tokens that it counts: of a sequence, on all of its ranks; or of the rows that a "
            "rank routes in a microbatch, which depends on the layout: outside the invariant")
        .one_of({"sequence", "rank"});
    s.field("drop",
            &MoeConfig::drop,
            "what stays: the choices of the largest weights, or of the first positions")
        .one_of({"weight", "position"})
        .megatron("--moe-token-drop-policy");
    s.field("pad_to_capacity",
            &MoeConfig::pad_to_capacity,
            "carry and compute empty places up to the capacity, or for all rows that experts may "
            "choose on a rank, so that all shapes are fixed")
        .megatron("--moe-pad-expert-input-to-capacity");
  }
};

}  // namespace tessera
