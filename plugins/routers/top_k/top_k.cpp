#include <optional>

#include "balancing_bias.hpp"
#include "jittered_input.hpp"
#include "tessera/plugin.hpp"
#include "tessera/router.hpp"

namespace tessera {

namespace {

RouterScore score_of(const std::string& name) {
  if (name == "softmax_before") return RouterScore::softmax_before;
  if (name == "sigmoid") return RouterScore::sigmoid;
  if (name == "sqrt_softplus") return RouterScore::sqrt_softplus;
  return RouterScore::softmax;
}

}  // namespace

/// Each token chooses the experts of its largest scores, ties the lower expert (Shazeer et al.
/// 2017); with groups, among the experts of its best groups (DeepSeek-AI 2024).
class TopKRouter final : public Router {
 public:
  struct Config {
    i64 hidden = 0, experts = 0, top_k = 0;
    std::string score = "softmax";
    i64 groups = 1, group_top_k = 1;
    double scale = 1, jitter = 0, bias_rate = 0, init_std = 0.02;
    Auto<bool> bias;
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").given().at_least(1).at_most(kMostFeatures);
      s.field("experts", &Config::experts, "experts of the layer")
          .given()
          .at_least(1)
          .at_most(kMostExperts);
      s.field("top_k", &Config::top_k, "experts that a token chooses")
          .given()
          .at_least(1)
          .at_most(kMostExperts);
      s.field("score",
              &Config::score,
              "weights of the chosen experts: softmax over them; softmax over all, before the "
              "choice; or sigmoid, sqrt_softplus of each, divided by the sum where there are "
              "several")
          .one_of({"softmax", "softmax_before", "sigmoid", "sqrt_softplus"})
          .structural()
          .megatron("--moe-router-score-function")
          .also("--moe-router-pre-softmax", "is {} = \"softmax_before\" here");
      s.field("groups",
              &Config::groups,
              "equal groups of experts; a token chooses within its best groups")
          .at_least(1)
          .at_most(kMostExperts)
          .structural()
          .megatron("--moe-router-num-groups");
      s.field("group_top_k", &Config::group_top_k, "groups that a token chooses within")
          .at_least(1)
          .at_most(kMostExperts)
          .structural()
          .megatron("--moe-router-group-topk");
      s.field("scale", &Config::scale, "times the weights")
          .above(0)
          .structural()
          .megatron("--moe-router-topk-scaling-factor");
      s.field(
           "jitter",
           &Config::jitter,
           "in training the router sees its input times random numbers between 1 - jitter and 1 + "
           "jitter")
          .at_least(0)
          .below(1)
          .megatron("--moe-input-jitter-eps");
      s.field(
           "bias_rate",
           &Config::bias_rate,
           "after each step an expert's bias moves by this much towards the mean of the loads of "
           "the global batch; 0: it stays as it is")
          .at_least(0)
          .megatron("--moe-router-bias-update-rate")
          .also("--moe-router-enable-expert-bias", "is {} above 0 here");
      s.field("bias",
              &Config::bias,
              "does each expert have a bias, which is added to its score in the choice only? Needs "
              "score \"sigmoid\" or \"sqrt_softplus\"; \"auto\": where bias_rate is above 0");
      model_fields::init_std(s);
    }
  };

  TopKRouter(const Config& config, BuildContext& build)
      : spec_{config.top_k,
              score_of(config.score),
              config.groups,
              config.group_top_k,
              config.scale},
        input_(config.jitter, build) {
    check(config, build);
    weight_ = &build.parameter({.name = "weight",
                                .shape = {config.experts, config.hidden},
                                .init = Init::gaussian(config.init_std),
                                .placement = build.tensor_region().per_split_row()});
    if (has_bias(config)) bias_.emplace(config.bias_rate, config.experts, build);
  }

  Routing do_route(Context& cx, Bundle& bundle, const Tensor& x) const override {
    const Tensor logits = ops::linear(cx, input_(cx, bundle, x), *weight_, nullptr);
    const ops::Routed routed =
        ops::topk_router(cx, logits, bias_ ? bias_->values() : Tensor(), spec_);
    if (bias_) bias_->count(cx, routed.experts);
    return {routed.experts, routed.weights, logits, spec_.score};
  }
  bool do_incremental() const override { return true; }
  void do_end_step(Context& cx) override {
    if (bias_) bias_->end_step(cx);
  }

 private:
  static bool has_bias(const Config& config) { return config.bias.value_or(config.bias_rate > 0); }

  static void check(const Config& config, const BuildContext& build) {
    const i64 groups = config.groups, chosen = config.group_top_k, k = config.top_k;
    if (config.experts > RouterSpec::kMaxExperts) {
      build.reject("experts",
                   fmt::format("{} experts are more than a router can have, {}",
                               config.experts,
                               RouterSpec::kMaxExperts));
    }
    if (config.experts % groups != 0) {
      build.reject("groups",
                   fmt::format("{} experts do not form {} equal groups", config.experts, groups));
    }
    if (chosen > groups)
      build.reject("group_top_k", fmt::format("{} of {} groups", chosen, groups));
    if (k % chosen != 0) {
      build.reject("top_k", fmt::format("{} is not a multiple of group_top_k = {}", k, chosen));
    }
    if (k > chosen * (config.experts / groups)) {
      build.reject("group_top_k",
                   fmt::format("{} groups of {} experts are fewer than top_k = {}",
                               chosen,
                               config.experts / groups,
                               k));
    }
    if (k == 1 && config.score == "softmax") {
      build.reject(
          "score",
          "of one chosen expert the softmax is 1 whatever the router says, so the model's "
          "loss would teach it nothing: with top_k = 1 choose \"softmax_before\", \"sigmoid\" or "
          "\"sqrt_softplus\"");
    }
    if (config.bias_rate > 0 && !has_bias(config)) {
      build.reject("bias", "is false, and bias_rate is above 0");
    }
    if (has_bias(config) && config.score != "sigmoid" && config.score != "sqrt_softplus") {
      build.reject(config.bias_rate > 0 ? "bias_rate" : "bias",
                   "needs score = \"sigmoid\" or \"sqrt_softplus\"");
    }
  }

  RouterSpec spec_;
  JitteredInput input_;
  Parameter* weight_ = nullptr;
  std::optional<BalancingBias> bias_;
};

}  // namespace tessera

TESSERA_PLUGIN(top_k_router, "0.1.0", "Each token chooses its experts") {
  registrar.add<tessera::Router, tessera::TopKRouter>(
      "top_k", "the experts of a token's largest scores, ties the lower expert");
}
