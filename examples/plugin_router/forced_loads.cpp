// A router that does not look at its rows: it sends them where a load is wanted. For tests of
// layers and dispatchers, and to measure what an uneven load costs.
#include "forced_loads.hpp"

#include <tessera/moe_ops.hpp>
#include <tessera/plugin.hpp>
#include <tessera/router.hpp>

namespace {

using namespace example;

// The kernel for every device whose memory the CPU addresses.
void force(const ForcedLoadsArgs& args) {
  const i64* rows = args.row_ids.as<const i64>();
  i32* experts = args.experts.as<i32>();
  for (i64 i = 0; i < args.row_ids.shape[0]; ++i) {
    for (i64 c = 0; c < args.top_k; ++c) {
      experts[i * args.top_k + c] = static_cast<i32>(expert_of(args, rows[i], c));
    }
  }
}

class ForcedLoads final : public Router {
 public:
  struct Config {
    i64 hidden = 0, experts = 0, top_k = 0;
    std::string loads = "balanced";
    double init_std = 0.02;
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").given().at_least(1).at_most(kMostFeatures);
      s.field("experts", &Config::experts, "experts of the layer")
          .given()
          .at_least(1)
          .at_most(kMostExperts);
      s.field("top_k", &Config::top_k, "experts that a token goes to")
          .given()
          .at_least(1)
          .at_most(kMostExperts);
      s.field("loads",
              &Config::loads,
              "balanced: equal; hot: all rows to the first experts; empty: none to the upper half; "
              "rotating: all rows of a sample to experts that change from sample to sample")
          .one_of({"balanced", "hot", "empty", "rotating"})
          .structural();
      model_fields::init_std(s);
    }
  };

  ForcedLoads(const Config& config, BuildContext& build)
      : region_(build.tensor_region()),
        row_ids_(build.slot("row_ids")),
        force_(build.operation<ForcedLoadsArgs>()) {
    if (config.loads == "empty" && config.top_k > config.experts / 2) {
      build.reject("loads", "the lower half has fewer experts than top_k");
    }
    args_.loads = loads_of(config.loads);
    args_.top_k = config.top_k;
    args_.all = config.experts;
    weight_ = &build.parameter({.name = "weight",
                                .shape = {config.experts, config.hidden},
                                .init = Init::gaussian(config.init_std),
                                .placement = region_.per_split_row()});
  }

  Routing do_route(Context& cx, Bundle& bundle, const Tensor& x) const override {
    ForcedLoadsArgs args = args_;
    const Tensor rows = region_.split_entries(bundle[row_ids_]);
    args.row_ids = rows.arg();
    const Tensor experts = ops::run(cx, force_, args)[0];
    // The weights are learned as those of any router. Softmax before the choice has a gradient for
    // one expert too.
    const Tensor logits = ops::linear(cx, x, *weight_, nullptr);
    return {.experts = experts,
            .weights = ops::router_weights(
                cx, logits, experts, {.top_k = args.top_k, .score = RouterScore::softmax_before}),
            .logits = logits,
            .score = RouterScore::softmax_before};
  }
  bool do_incremental() const override { return true; }

 private:
  static Loads loads_of(const std::string& name) {
    if (name == "hot") return Loads::hot;
    if (name == "empty") return Loads::empty;
    if (name == "rotating") return Loads::rotating;
    return Loads::balanced;
  }

  TensorRegion region_;
  Slot row_ids_;
  Operation<ForcedLoadsArgs> force_;
  ForcedLoadsArgs args_;
  Parameter* weight_ = nullptr;
};

}  // namespace

TESSERA_PLUGIN(forced_loads, "0.1.0", "A router that forces the loads of experts") {
  registrar.add<Router, ForcedLoads>("forced_loads",
                                     "sends rows where a load is wanted, whatever they hold");
  registrar.add_kernel("host", make_kernel<ForcedLoadsArgs>(&force));
}
