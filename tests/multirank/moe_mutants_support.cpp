#include "moe_mutants_support.hpp"

#include <cmath>
#include <numeric>
#include <utility>

#include "mutants_support.hpp"
#include "tessera/comm.hpp"
#include "tessera/dispatcher.hpp"
#include "tessera/moe_ops.hpp"
#include "tessera/random.hpp"

namespace tessera::testing {

namespace {

// The placement of the router's matrix forgets that the ranks of the tensor group route other rows,
// or what drops choices by position sees positions within the rank.
class MutantRouter final : public Router {
 public:
  struct Config {
    i64 hidden = 0, experts = 0, top_k = 0;
    std::string mistake = "none";
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").given();
      s.field("experts", &Config::experts, "experts").given();
      s.field("top_k", &Config::top_k, "choices").given();
      describe_mistake(s, {"gradient_not_summed", "local_positions"});
    }
  };
  MutantRouter(const Config& config, BuildContext& build)
      : local_(config.mistake == "local_positions"),
        row_ids_(build.slot("row_ids")),
        spec_{.top_k = config.top_k},
        weight_(build.parameter({.name = "weight",
                                 .shape = {config.experts, config.hidden},
                                 .init = Init::gaussian(0.02),
                                 .placement = config.mistake == "gradient_not_summed"
                                                  ? Placement::replicated()
                                                  : build.tensor_region().per_split_row()})) {}
  Routing operator()(Context& cx, Bundle& bundle, const Tensor& x) const override {
    if (local_) bundle[row_ids_] = within_rank(cx, bundle[row_ids_]);
    const auto routed = ops::topk_router(cx, ops::linear(cx, x, weight_, nullptr), {}, spec_);
    return {routed.experts, routed.weights};
  }

 private:
  static Tensor within_rank(Context& cx, const Tensor& row_ids) {
    std::vector<i64> ids(static_cast<std::size_t>(row_ids.elements()));
    cx.device->read(row_ids, ids.data());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = row_id(row_sample(ids[i]), static_cast<i64>(i));
    }
    Tensor made = cx.empty({row_ids.elements()}, DType::i64);
    cx.device->write(made, ids.data());
    return made;
  }

  bool local_;
  Slot row_ids_;
  RouterSpec spec_;
  Parameter& weight_;
};

// Layer "moe" with a shared expert of its own, which every rank of the tensor group may compute
// whole, while their results are summed.
class MutantSharedLayer final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, layers = 1, shared_ffn = 0;
    double init_std = 0.02;
    std::string mistake = "none";
    Component<Layer> inner{"moe", {}};
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden");
      s.field("layers", &Config::layers, "layers").from("model.layers");
      s.field("shared_ffn", &Config::shared_ffn, "inner features");
      s.field("init_std", &Config::init_std, "of the initial weights");
      s.slot("inner", &Config::inner, "the experts");
      describe_mistake(s, {"on_every_rank"});
    }
  };
  MutantSharedLayer(const Config& config, BuildContext& build)
      : region_(build.tensor_region()),
        hidden_(build.slot("hidden")),
        kept_(build.slot("mutant.shared")),
        inner_(build.child("", config.inner)) {
    const i64 f = config.shared_ffn;
    const double scale = std::sqrt(2.0 * static_cast<double>(config.layers));
    ParameterSpec up{.name = "shared.up",
                     .shape = {2 * f, config.hidden},
                     .init = Init::gaussian(config.init_std)};
    ParameterSpec down{.name = "shared.down",
                       .shape = {config.hidden, f},
                       .init = Init::gaussian(config.init_std / scale)};
    if (config.mistake == "none") {
      up.split = {{0, Axis::tensor, {f, f}}};
      down.split = {{1, Axis::tensor}};
    } else {
      up.placement = down.placement = Placement::replicated();
    }
    up_ = &build.parameter(up);
    down_ = &build.parameter(down);
  }
  std::vector<Phase> phases() override {
    std::vector<Phase> phases = inner_->phases();
    auto& first = phases.front().run;
    first = [this, run = std::move(first)](Context& cx, Bundle& bundle) {
      bundle[kept_] = bundle[hidden_];
      run(cx, bundle);
    };
    auto& last = phases.back().run;
    last = [this, run = std::move(last)](Context& cx, Bundle& bundle) {
      run(cx, bundle);
      const Tensor x = region_.enter(cx, std::exchange(bundle[kept_], {}));
      const Tensor inner = ops::weighted_swiglu(cx, ops::linear(cx, x, *up_, nullptr), {});
      const Tensor y = region_.leave(cx, ops::linear(cx, inner, *down_, nullptr));
      bundle[hidden_] = ops::add(cx, bundle[hidden_], y);
    };
    return phases;
  }

 private:
  TensorRegion region_;
  Slot hidden_, kept_;
  std::shared_ptr<Layer> inner_;
  Parameter *up_, *down_;
};

// Goes wrong where rows come from several ranks.
class MutantDispatcher final : public TokenDispatcher {
 public:
  struct Config {
    i64 experts = 0, top_k = 0;
    std::string mistake = "none";
    Component<TokenDispatcher> inner{"alltoall", {}};
    static void describe(Schema<Config>& s) {
      s.field("experts", &Config::experts, "experts").given();
      s.field("top_k", &Config::top_k, "choices").given();
      s.slot("inner", &Config::inner, "what does the work");
      describe_mistake(s, {"sources_swapped", "last_row_dropped", "weight_of_the_next_row"});
    }
  };
  MutantDispatcher(const Config& config, BuildContext& build)
      : mistake_(config.mistake),
        several_(build.mesh().size(Axis::expert) * build.mesh().size(Axis::expert_tensor) > 1),
        inner_(build.child(
            "inner", config.inner, {{"experts", config.experts}, {"top_k", config.top_k}})) {}

  ExpertRows preprocess(Context& cx,
                        Bundle& bundle,
                        const Tensor& x,
                        const Routing& routing) const override {
    return inner_->preprocess(cx, bundle, x, routing);
  }
  std::vector<HostSlot> reads() const override { return inner_->reads(); }
  Shapes shapes() const override { return inner_->shapes(); }
  ExpertRows dispatch(Context& cx,
                      Bundle& bundle,
                      const ExpertRows& rows,
                      const Meanwhile& meanwhile) const override {
    ExpertRows arrived = inner_->dispatch(cx, bundle, rows, meanwhile);
    const i64 m = arrived.x.dim(0);
    if (!several_ || m < 2) return arrived;
    std::vector<i32> order(static_cast<std::size_t>(m));
    std::iota(order.begin(), order.end(), 0);
    if (mistake_ == "sources_swapped") std::swap(order.front(), order.back());
    if (mistake_ == "last_row_dropped") order.back() = -1;
    arrived.x = ops::permute_rows(cx, arrived.x, on_device(cx, order), 1);
    if (mistake_ == "weight_of_the_next_row") {
      for (i32& row : order) row = (row + 1) % static_cast<i32>(m);
      const Tensor column = ops::reshape(cx, arrived.weights, {m, 1});
      arrived.weights =
          ops::reshape(cx, ops::permute_rows(cx, column, on_device(cx, order), 1), {m});
    }
    return arrived;
  }
  Tensor counts(const Bundle& bundle) const override { return inner_->counts(bundle); }
  Tensor combine(Context& cx,
                 Bundle& bundle,
                 const Tensor& y,
                 const Meanwhile& meanwhile) const override {
    return inner_->combine(cx, bundle, y, meanwhile);
  }
  Tensor unpermute(Context& cx, Bundle& bundle, const Tensor& y) const override {
    return inner_->unpermute(cx, bundle, y);
  }

 private:
  static Tensor on_device(Context& cx, const std::vector<i32>& values) {
    Tensor made = cx.empty({static_cast<i64>(values.size())}, DType::i32);
    cx.device->write(made, values.data());
    return made;
  }

  std::string mistake_;
  bool several_;
  std::shared_ptr<TokenDispatcher> inner_;
};

class MutantExpertOptimizer final : public Optimizer {
 public:
  struct Config {
    double clip = 0;
    std::string mistake = "none";
    Component<UpdateRule> rule{"adamw", {}};
    static void describe(Schema<Config>& s) {
      s.field("clip", &Config::clip, "bound of the norm");
      s.slot("rule", &Config::rule, "update");
      describe_mistake(s,
                       {"summed_over_dense_replicas",
                        "divided_by_expert_ranks",
                        "norm_of_every_replica",
                        "norm_of_own_experts"});
    }
  };
  MutantExpertOptimizer(const Config& config, OptimizerArguments& arguments)
      : config_(config),
        mesh_(*arguments.mesh),
        rule_(arguments.make_rule(config.rule)),
        shards_(shards_without_groups(arguments, *rule_)) {}

  void sum_squares(Context& cx, const Tensor& out) override {
    for (std::size_t i = 0; i < shards_.list.size(); ++i) {
      const ParameterLayout& layout = shards_.list[i].parameter->layout;
      const Tensor gradient = shards_.grad_of(i);
      if (layout.expert()) meddle(cx, gradient);
      const bool own = config_.mistake != "norm_of_own_experts" || mesh_.experts().index() == 0;
      if (!layout.counted() || (layout.expert() && !own)) continue;
      SumSquaresArgs args{gradient.arg(), {}, out.slice(0, layout.expert() ? 1 : 0, 1).arg()};
      ops::run(cx, args);
    }
    if (config_.mistake != "norm_of_every_replica") return;
    const Tensor experts = out.slice(0, 1, 1);
    ScaleArgs args{
        experts.arg(), experts.arg(), static_cast<double>(mesh_.size(Axis::expert_data))};
    ops::run(cx, args);
  }
  void step(Context& cx, const Tensor& scalars) override { rule_->update(cx, shards_, scalars); }
  double clip() const override { return config_.clip; }
  std::vector<NamedState> state() override { return {}; }

 private:
  void meddle(Context& cx, const Tensor& gradient) const {
    if (config_.mistake == "summed_over_dense_replicas") {
      mesh_.data_context()
          .all_reduce(*cx.stream, gradient, ReduceOp::sum, "gradients of experts")
          .wait(*cx.stream);
    }
    if (config_.mistake == "divided_by_expert_ranks") {
      ScaleArgs args{
          gradient.arg(), gradient.arg(), 1 / static_cast<double>(mesh_.size(Axis::expert))};
      ops::run(cx, args);
    }
  }

  Config config_;
  const Mesh& mesh_;
  std::shared_ptr<UpdateRule> rule_;
  Shards shards_;
};

}  // namespace

void register_moe_mutants(Registrar& registrar) {
  registrar.add<Router, MutantRouter>("mutant_router", "a router");
  registrar.add<Layer, MutantSharedLayer>("mutant_shared_layer", "a layer with experts");
  registrar.add<TokenDispatcher, MutantDispatcher>("mutant_dispatcher", "a dispatcher");
  registrar.add<Optimizer, MutantExpertOptimizer>("mutant_expert_optimizer", "an optimizer");
}

}  // namespace tessera::testing
