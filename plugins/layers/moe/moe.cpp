#include <cmath>
#include <utility>

#include "auxiliary.hpp"
#include "tessera/dispatcher.hpp"
#include "tessera/moe_ops.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

/// A mixture of experts in the place of an MLP: every row goes to the experts that its router
/// chooses, and gets their weighted sum (Shazeer et al. 2017; Lepikhin et al. 2021). An expert is
/// two matrices with an activation between, which the row's weight multiplies, so that nothing of
/// [rows · top_k, hidden] is kept for the weight's gradient. Reads and writes "hidden".
class Moe final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, layers = 1, experts = 0, top_k = 2;
    Auto<i64> ffn;
    std::string activation = "swiglu";
    double init_std = 0.02;
    double sequence_loss = 0, microbatch_loss = 0, global_loss = 0, z_loss = 0;
    Component<Router> router{"top_k", {}};
    Component<TokenDispatcher> dispatcher{"alltoall", {}};
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden").at_least(1);
      s.field("layers", &Config::layers, "scales the initial output weights")
          .from("model.layers")
          .at_least(1);
      s.field("experts", &Config::experts, "experts of the layer, cut over parallel.expert ranks")
          .required()
          .at_least(1)
          .megatron("--num-experts");
      s.field("top_k", &Config::top_k, "experts that a token goes to")
          .at_least(1)
          .megatron("--moe-router-topk");
      s.field("ffn",
              &Config::ffn,
              "inner features of an expert, cut over parallel.expert_tensor ranks; \"auto\": 4 × "
              "hidden")
          .at_least(1)
          .at_most(i64{1} << 20)
          .megatron("--moe-ffn-hidden-size");
      s.field("activation",
              &Config::activation,
              "between an expert's matrices; swiglu: the first has 2 × ffn columns, gate and up")
          .one_of({"swiglu", "gelu"})
          .megatron("--swiglu");
      s.field("init_std", &Config::init_std, "standard deviation of the initial weights")
          .from("model.init_std")
          .at_least(0);
      s.field("sequence_loss",
              &Config::sequence_loss,
              "coefficient of the loss that balances the loads of each sequence")
          .at_least(0)
          .megatron("--moe-router-load-balancing-type");
      s.field(
           "microbatch_loss",
           &Config::microbatch_loss,
           "the same of each microbatch on the ranks of tensor × context; depends on batch.micro "
           "and the layout: not one loss curve")
          .at_least(0)
          .megatron("--moe-aux-loss-coeff");
      s.field("global_loss",
              &Config::global_loss,
              "the same with the loads of all ranks of a stage since the step began; depends on "
              "batch.micro and the layout: not one loss curve")
          .at_least(0);
      s.field("z_loss",
              &Config::z_loss,
              "coefficient of the mean squared log-sum-exp of the router's logits")
          .at_least(0)
          .megatron("--moe-z-loss-coeff");
      s.slot("router", &Config::router, "chooses the experts of each token");
      s.slot("dispatcher", &Config::dispatcher, "carries rows to their experts and back")
          .megatron("--moe-token-dispatcher-type");
    }
  };

  Moe(const Config& config, BuildContext& build)
      : region_(build.tensor_region()),
        swiglu_(config.activation == "swiglu"),
        hidden_(build.slot("hidden")),
        experts_(build.slot("moe.experts")),
        weights_(build.slot("moe.weights")),
        auxiliary_(
            {config.sequence_loss, config.microbatch_loss, config.global_loss, config.z_loss},
            config.experts,
            config.top_k,
            build) {
    const i64 ffn = config.ffn.value_or(4 * config.hidden);
    check(config, ffn, build);
    router_ = build.child(
        "router",
        config.router,
        {{"hidden", config.hidden}, {"experts", config.experts}, {"top_k", config.top_k}});
    dispatcher_ =
        build.child("dispatcher",
                    config.dispatcher,
                    {{"experts", config.experts}, {"top_k", router_->choices(config.top_k)}});
    const Split over_experts{.dim = 0, .axis = Axis::expert};
    const std::vector<i64> halves = {ffn, ffn};
    const double active = static_cast<double>(config.top_k) / static_cast<double>(config.experts);
    up_ = &build.parameter(
        {.name = "experts.up",
         .shape = {config.experts, config.hidden, swiglu_ ? 2 * ffn : ffn},
         .split = {over_experts, {2, Axis::expert_tensor, swiglu_ ? halves : std::vector<i64>()}},
         .init = Init::gaussian(config.init_std),
         .active = active});
    const double scale = std::sqrt(2.0 * static_cast<double>(config.layers));
    down_ = &build.parameter({.name = "experts.down",
                              .shape = {config.experts, ffn, config.hidden},
                              .split = {over_experts, {1, Axis::expert_tensor}},
                              .init = Init::gaussian(config.init_std / scale),
                              .active = active});
  }

  std::vector<Phase> phases() override {
    const Shapes shapes = dispatcher_->shapes();
    std::vector<Phase> all = {
        {.scope = "moe_router", .run = [this](Context& cx, Bundle& bundle) { route(cx, bundle); }},
        {.scope = "moe_preprocess",
         .run = [this](Context& cx, Bundle& bundle) { preprocess(cx, bundle); }},
        {.scope = "moe_dispatch",
         .shapes = shapes,
         .run = [this](Context& cx, Bundle& bundle) { dispatch(cx, bundle); },
         .reads = dispatcher_->reads()},
        {.scope = "moe_experts",
         .shapes = shapes,
         .run = [this](Context& cx, Bundle& bundle) { compute(cx, bundle); }},
        {.scope = "moe_combine",
         .shapes = shapes,
         .run =
             [this](Context& cx, Bundle& bundle) {
               const Tensor y = std::exchange(bundle[hidden_], {});
               bundle[hidden_] = dispatcher_->combine(cx, bundle, y);
             },
         .reads = dispatcher_->reads()},
        {.scope = "moe_unpermute", .run = [this](Context& cx, Bundle& bundle) {
           const Tensor y = std::exchange(bundle[hidden_], {});
           const Tensor rows = dispatcher_->unpermute(cx, bundle, y);
           bundle[hidden_] = region_.join_rows(cx, rows);
         }}};
    // One row does not divide among the ranks of a tensor group.
    const bool incremental = router_->incremental() && region_.size() == 1;
    for (Phase& phase : all) phase.incremental = incremental;
    return all;
  }

  void end_step(Context& cx) override {
    router_->end_step(cx);
    auxiliary_.end_step(cx);
  }

 private:
  static void check(const Config& config, i64 ffn, const BuildContext& build) {
    const Mesh& mesh = build.mesh();
    if (config.experts % mesh.size(Axis::expert) != 0) {
      build.reject("experts",
                   fmt::format("{} experts do not divide among parallel.expert = {} ranks",
                               config.experts,
                               mesh.size(Axis::expert)));
    }
    if (ffn % mesh.size(Axis::expert_tensor) != 0) {
      build.reject(
          "ffn",
          fmt::format("{} inner features do not divide among parallel.expert_tensor = {} ranks",
                      ffn,
                      mesh.size(Axis::expert_tensor)));
    }
    if (config.top_k > config.experts) {
      build.reject("top_k", fmt::format("{} of {} experts", config.top_k, config.experts));
    }
    const i64 rows = build.batch().rows(), ranks = mesh.size(Axis::tensor);
    if (rows % ranks != 0) {
      build.reject(
          "type",
          fmt::format("each rank routes its share of the {} rows of a microbatch, and they "
                      "do not divide among parallel.tensor = {} ranks",
                      rows,
                      ranks));
    }
  }

  void route(Context& cx, Bundle& bundle) const {
    bundle[hidden_] = region_.split_rows(cx, std::exchange(bundle[hidden_], {}));
    const Routing routing = (*router_)(cx, bundle, bundle[hidden_]);
    auxiliary_.add(cx, routing);
    bundle[experts_] = routing.experts;
    bundle[weights_] = routing.weights;
  }

  void preprocess(Context& cx, Bundle& bundle) const {
    const Tensor x = std::exchange(bundle[hidden_], {});
    const Routing routing{std::exchange(bundle[experts_], {}), std::exchange(bundle[weights_], {})};
    put(bundle, dispatcher_->preprocess(cx, bundle, x, routing));
  }

  void dispatch(Context& cx, Bundle& bundle) const {
    const ExpertRows rows{std::exchange(bundle[hidden_], {}), std::exchange(bundle[weights_], {})};
    put(bundle, dispatcher_->dispatch(cx, bundle, rows));
  }

  void compute(Context& cx, Bundle& bundle) const {
    const Tensor counts = dispatcher_->counts(bundle);
    Tensor inner = ops::grouped_linear(cx, std::exchange(bundle[hidden_], {}), *up_, counts);
    const Tensor weights = std::exchange(bundle[weights_], {});
    inner =
        swiglu_ ? ops::weighted_swiglu(cx, inner, weights) : ops::weighted_gelu(cx, inner, weights);
    bundle[hidden_] = ops::grouped_linear(cx, inner, *down_, counts);
  }

  void put(Bundle& bundle, ExpertRows rows) const {
    bundle[hidden_] = std::move(rows.x);
    bundle[weights_] = std::move(rows.weights);
  }

  TensorRegion region_;
  bool swiglu_;
  Slot hidden_, experts_, weights_;
  AuxiliaryLosses auxiliary_;
  std::shared_ptr<Router> router_;
  std::shared_ptr<TokenDispatcher> dispatcher_;
  Parameter *up_ = nullptr, *down_ = nullptr;
};

}  // namespace tessera

TESSERA_PLUGIN(moe, "0.1.0", "Mixture of experts") {
  registrar.add<tessera::Layer, tessera::Moe>("moe", "router, experts, weighted sum");
}
