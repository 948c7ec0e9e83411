#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "auxiliary.hpp"
#include "capacity.hpp"
#include "expert_load.hpp"
#include "moe_config.hpp"
#include "shared_experts.hpp"
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
  using Config = MoeConfig;

  Moe(const Config& config, BuildContext& build)
      : region_(build.tensor_region()),
        activation_(ops::activation_named(config.activation)),
        hidden_(build.slot("hidden")),
        experts_(build.slot("moe.experts")),
        weights_(build.slot("moe.weights")),
        auxiliary_(
            {config.sequence_loss, config.microbatch_loss, config.global_loss, config.z_loss},
            config.experts,
            config.top_k,
            build) {
    const i64 ffn = config.ffn.value_or(4 * config.hidden);
    const i64 experts = build.divide(config.experts, "experts", "experts", Axis::expert);
    const i64 features = build.divide(ffn, "ffn", "inner features", Axis::expert_tensor);
    several_ = experts < config.experts || features < ffn;
    check(config, build);
    router_ = build.child(
        "router",
        config.router,
        {{"hidden", config.hidden}, {"experts", config.experts}, {"top_k", config.top_k}});
    const i64 choices = router_->choices(config.top_k);
    Given given = {{"experts", config.experts}, {"top_k", choices}};
    if (config.capacity_factor) {
      if (choices != config.top_k) {
        build.reject("capacity_factor", "the experts of this router take equally many rows");
      }
      capacity_.emplace(build,
                        Capacity::Options{.experts = config.experts,
                                          .top_k = config.top_k,
                                          .factor = *config.capacity_factor,
                                          .per_sequence = config.capacity_scope == "sequence",
                                          .by_weight = config.drop == "weight"});
    }
    if (router_->rows_per_sequence() > 0) {
      taken_ = {router_->rows_per_sequence(), build.sequence_length()};
    } else if (capacity_) {
      taken_ = capacity_->taken();
    }
    // Experts that choose their rows are equally loaded.
    if (router_->rows_per_sequence() == 0) load_.emplace(config.experts, bool(capacity_), build);
    if (const i64 places = places_of(config, choices, build); places > 0) {
      given.emplace_back("rows_per_expert", places);
    }
    dispatcher_ = build.child("dispatcher", config.dispatcher, given);
    const Split over_experts{.dim = 0, .axis = Axis::expert};
    const bool gated = is_gated(activation_);
    const std::vector<i64> halves = {ffn, ffn};
    const double active = static_cast<double>(config.top_k) / static_cast<double>(config.experts);
    up_ = &build.parameter(
        {.name = "experts.up",
         .shape = {config.experts, config.hidden, gated ? 2 * ffn : ffn},
         .split = {over_experts, {2, Axis::expert_tensor, gated ? halves : std::vector<i64>()}},
         .init = Init::gaussian(config.init_std),
         .active = active});
    const double scale = std::sqrt(2.0 * static_cast<double>(config.layers));
    down_ = &build.parameter({.name = "experts.down",
                              .shape = {config.experts, ffn, config.hidden},
                              .split = {over_experts, {1, Axis::expert_tensor}},
                              .init = Init::gaussian(config.init_std / scale),
                              .active = active});
    if (config.shared_ffn == 0) return;
    shared_.emplace(build,
                    SharedExperts::Options{.hidden = config.hidden,
                                           .ffn = config.shared_ffn,
                                           .activation = activation_,
                                           .gate = config.shared_gate,
                                           .init_std = config.init_std,
                                           .output_std = config.init_std / scale});
    overlaps_ = config.shared_overlap && several_;
  }

  std::vector<Phase> do_phases() override {
    const Shapes shapes = dispatcher_->shapes();
    std::vector<Phase> all = {
        {.scope = "moe_router", .run = [this](Context& cx, Bundle& bundle) { route(cx, bundle); }},
        {.scope = "moe_preprocess",
         .run = [this](Context& cx, Bundle& bundle) { preprocess(cx, bundle); }}};
    if (shared_ && !overlaps_) {
      all.push_back({.scope = "shared_experts", .run = [this](Context& cx, Bundle& bundle) {
                       shared_->first_half(cx, bundle);
                       shared_->second_half(cx, bundle);
                     }});
    }
    all.push_back({.scope = "moe_dispatch",
                   .shapes = shapes,
                   .run = [this](Context& cx, Bundle& bundle) { dispatch(cx, bundle); },
                   .reads = dispatcher_->reads(),
                   .starts_exchange = several_});
    all.push_back({.scope = "moe_experts",
                   .shapes = shapes,
                   .run = [this](Context& cx, Bundle& bundle) { compute(cx, bundle); }});
    all.push_back({.scope = "moe_combine",
                   .shapes = shapes,
                   .run = [this](Context& cx, Bundle& bundle) { combine(cx, bundle); },
                   .reads = dispatcher_->reads(),
                   .starts_exchange = several_});
    all.push_back({.scope = "moe_unpermute",
                   .run = [this](Context& cx, Bundle& bundle) { unpermute(cx, bundle); }});
    // One row does not divide among the ranks of a tensor group, and a capacity counts all rows.
    const bool incremental = router_->incremental() && region_.size() == 1 && !capacity_;
    for (Phase& phase : all) phase.incremental = incremental;
    if (router_->rows_per_sequence() > 0) {
      all.front().looks_ahead = "its experts choose among all rows of a sequence";
    } else if (capacity_ && capacity_->by_weight()) {
      all.front().looks_ahead =
          "drop = \"weight\" lets later rows of a sequence take the places of earlier ones";
    }
    return all;
  }

  void do_end_step(Context& cx) override {
    router_->end_step(cx);
    auxiliary_.end_step(cx);
  }

 private:
  static void check(const Config& config, const BuildContext& build) {
    if (config.top_k > config.experts) {
      build.reject("top_k", fmt::format("{} of {} experts", config.top_k, config.experts));
    }
    if (!config.capacity_factor) {
      if (config.drop != MoeConfig().drop) build.reject("drop", "needs capacity_factor");
      if (config.capacity_scope != MoeConfig().capacity_scope) {
        build.reject("capacity_scope", "needs capacity_factor");
      }
    }
    if (config.shared_ffn == 0 && (config.shared_gate || config.shared_overlap)) {
      build.reject(config.shared_gate ? "shared_gate" : "shared_overlap", "needs shared_ffn");
    }
    build.divide(config.shared_ffn, "shared_ffn", "inner features");
    build.divide(
        build.batch().rows(), "type", "rows of a microbatch, of which each rank routes its share,");
  }

  // Places that each rank has for rows of each expert; 0: as many as there are rows. Experts that
  // choose take all places of a rank that holds whole sequences. A rank alone holds no more than
  // its experts may take.
  i64 places_of(const MoeConfig& config, i64 choices, const BuildContext& build) const {
    const i64 taken = router_->rows_per_sequence();
    if (!capacity_ && taken == 0) {
      if (config.pad_to_capacity) build.reject("pad_to_capacity", "needs capacity_factor");
      return 0;
    }
    const i64 most =
        capacity_ ? capacity_->rows_per_expert() : most_rows(build.batch(), region_.size(), taken);
    if (!several_) {
      const i64 rows = build.batch().rows() / region_.size();
      return config.experts * most < rows * choices ? most : 0;
    }
    const bool whole = region_.size() == 1 && build.sequence_length() == build.batch().sequence;
    return config.pad_to_capacity || (!capacity_ && whole) ? most : 0;
  }

  void route(Context& cx, Bundle& bundle) const {
    if (shared_) shared_->take(bundle, bundle[hidden_]);
    bundle[hidden_] = region_.split_rows(cx, std::exchange(bundle[hidden_], {}));
    const Routing routing = (*router_)(cx, bundle, bundle[hidden_]);
    auxiliary_.add(cx, routing);
    if (load_) load_->chosen(cx, routing.experts);
    bundle[experts_] = routing.experts;
    bundle[weights_] = routing.weights;
  }

  void preprocess(Context& cx, Bundle& bundle) const {
    const Tensor x = std::exchange(bundle[hidden_], {});
    Routing routing{std::exchange(bundle[experts_], {}), std::exchange(bundle[weights_], {})};
    routing.by_expert = router_->rows_per_sequence() > 0;
    routing.limit = taken_.of(x.dim(0));
    if (capacity_) {
      routing.experts = capacity_->keep(cx, bundle, routing);
      if (load_) load_->kept(cx, routing.experts);
    }
    put(bundle, dispatcher_->preprocess(cx, bundle, x, routing));
  }

  void dispatch(Context& cx, Bundle& bundle) const {
    const ExpertRows rows{std::exchange(bundle[hidden_], {}), std::exchange(bundle[weights_], {})};
    const auto meanwhile = [&] {
      if (overlaps_) shared_->first_half(cx, bundle);
    };
    put(bundle, dispatcher_->dispatch(cx, bundle, rows, std::ref(meanwhile)));
  }

  void compute(Context& cx, Bundle& bundle) const {
    const Tensor counts = dispatcher_->counts(bundle);
    Tensor inner = ops::grouped_linear(cx, std::exchange(bundle[hidden_], {}), *up_, counts);
    const Tensor weights = std::exchange(bundle[weights_], {});
    inner = ops::weighted_activation(cx, inner, weights, activation_);
    bundle[hidden_] = ops::grouped_linear(cx, inner, *down_, counts);
  }

  void combine(Context& cx, Bundle& bundle) const {
    const Tensor y = std::exchange(bundle[hidden_], {});
    const auto meanwhile = [&] {
      if (overlaps_) shared_->second_half(cx, bundle);
    };
    bundle[hidden_] = dispatcher_->combine(cx, bundle, y, std::ref(meanwhile));
  }

  void unpermute(Context& cx, Bundle& bundle) const {
    const Tensor y = std::exchange(bundle[hidden_], {});
    const Tensor rows = dispatcher_->unpermute(cx, bundle, y);
    bundle[hidden_] = region_.join_rows(cx, rows);
    if (shared_) bundle[hidden_] = shared_->add_to(cx, bundle, bundle[hidden_]);
  }

  void put(Bundle& bundle, ExpertRows rows) const {
    bundle[hidden_] = std::move(rows.x);
    bundle[weights_] = std::move(rows.weights);
  }

  TensorRegion region_;
  bool several_ = false;  ///< ranks have the layer's experts
  Activation activation_;
  Slot hidden_, experts_, weights_;
  AuxiliaryLosses auxiliary_;
  std::shared_ptr<Router> router_;
  std::shared_ptr<TokenDispatcher> dispatcher_;
  std::optional<Capacity> capacity_;
  Taken taken_;  ///< by each expert
  std::optional<ExpertLoad> load_;
  std::optional<SharedExperts> shared_;
  bool overlaps_ = false;  ///< shared experts with rows that are on their way
  Parameter *up_ = nullptr, *down_ = nullptr;
};

}  // namespace tessera

TESSERA_PLUGIN(moe, "0.1.0", "Mixture of experts") {
  registrar.add<tessera::Layer, tessera::Moe>("moe", "router, experts, weighted sum");
}
