#include "mutants_support.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "forwarding_dispatcher_support.hpp"
#include "kernel/model/host_values.hpp"
#include "tessera/moe_ops.hpp"
#include "tessera/process_group.hpp"
#include "tessera/random.hpp"

namespace tessera::testing {

namespace {

// One rank alone, for counts that forget the others.
ProcessGroup& alone() {
  static ProcessGroup group({.name = "alone", .members = {0}}, nullptr, 0);
  return group;
}

// A router as top_k, and its balance, each with the mistake that its configuration names.
class MutantRouter final : public Router {
 public:
  struct Config {
    i64 hidden = 0, experts = 0, top_k = 0;
    std::string score = "softmax", mistake = "none";
    double init_std = 0.02, bias_rate = 0, own_sequence_loss = 0;
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").given();
      s.field("experts", &Config::experts, "experts").given();
      s.field("top_k", &Config::top_k, "choices").given();
      s.field("score", &Config::score, "as top_k");
      s.field("init_std", &Config::init_std, "as top_k");
      s.field("bias_rate", &Config::bias_rate, "as top_k");
      s.field("own_sequence_loss",
              &Config::own_sequence_loss,
              "a sequence_loss that is added here and not by the layer");
      describe_mistake(s,
                       {"gradient_not_summed",
                        "counts_of_one_rank",
                        "losses_times_context",
                        "losses_over_microbatches",
                        "losses_over_tensor",
                        "bias_in_weights",
                        "local_counts",
                        "counted_by_recompute",
                        "higher_of_ties",
                        "local_positions"});
    }
  };
  MutantRouter(const Config& config, BuildContext& build)
      : config_(config),
        mesh_(build.mesh()),
        batch_(build.batch()),
        region_(build.tensor_region()),
        row_ids_(build.slot("row_ids")),
        spec_{.top_k = config.top_k,
              .score = config.score == "sigmoid" ? RouterScore::sigmoid : RouterScore::softmax},
        weight_(build.parameter({.name = "weight",
                                 .shape = {config.experts, config.hidden},
                                 .init = Init::gaussian(config.init_std),
                                 .placement = config.mistake == "gradient_not_summed"
                                                  ? Placement::replicated()
                                                  : region_.per_split_row()})) {
    if (config.own_sequence_loss > 0) {
      term_ = build.loss({.name = "moe_sequence_loss",
                          .weight = LossWeight::samples,
                          .auxiliary = true,
                          .partial = {Axis::tensor, Axis::context, Axis::data}});
    }
    if (config.bias_rate == 0) return;
    bias_ = &build.buffer({.name = "bias", .shape = {config.experts}});
    counts_ = &build.buffer(
        {.name = "counts", .shape = {config.experts}, .dtype = DType::i64, .saved = false});
  }

  Routing do_route(Context& cx, Bundle& bundle, const Tensor& x) const override {
    if (wrong("local_positions")) bundle[row_ids_] = within_rank(cx, bundle[row_ids_]);
    const Tensor logits = ops::linear(cx, x, weight_, nullptr);
    Tensor experts = ops::topk_router(cx, logits, bias_ ? bias_->value : Tensor(), spec_).experts;
    if (wrong("higher_of_ties")) experts = last_of_ties(cx, logits);
    const Tensor weighed = wrong("bias_in_weights") ? biased(cx, logits) : logits;
    const bool counted = !cx.recomputing || wrong("counted_by_recompute");
    if (bias_ && cx.training() && counted) ops::add_expert_counts(cx, experts, counts_->value);
    if (config_.own_sequence_loss > 0) balance(cx, logits);
    return {.experts = experts,
            .weights = ops::router_weights(cx, weighed, experts, spec_),
            .logits = scale_gradient(cx, logits, factor()),
            .score = spec_.score};
  }
  void do_end_step(Context& cx) override {
    if (!bias_) return;
    if (!wrong("local_counts")) {
      mesh_.find_stage()
          ->all_reduce(*cx.stream, counts_->value, ReduceOp::sum, "counts")
          .wait(*cx.stream);
    }
    ExpertBiasArgs args{
        cx.skipped.arg(), bias_->value.arg(), counts_->value.arg(), config_.bias_rate};
    ops::run(cx, args);
  }

 private:
  static Tensor within_rank(Context& cx, const Tensor& row_ids) {
    return changed_ids(cx, row_ids, [](std::vector<i64>& ids) {
      for (i64 i = 0; i64 & id : ids) id = row_id(row_sample(id), i++);
    });
  }
  bool wrong(std::string_view mistake) const { return config_.mistake == mistake; }
  double factor() const {
    if (wrong("losses_times_context")) return static_cast<double>(mesh_.size(Axis::context));
    if (wrong("losses_over_tensor")) return 1 / static_cast<double>(mesh_.size(Axis::tensor));
    if (wrong("losses_over_microbatches")) {
      constexpr double kGlobal = 8;  // batch.global of tiny_config()
      return static_cast<double>(batch_.micro * mesh_.size(Axis::data)) / kGlobal;
    }
    return 1;
  }
  void balance(Context& cx, const Tensor& logits) const {
    if (!cx.training()) return;
    const ops::BalanceSpec spec{
        .score = spec_.score,
        .top_k = config_.top_k,
        .coefficient = config_.own_sequence_loss,
        .length = batch_.sequence * mesh_.size(Axis::context),
        .rows = {region_.index() * logits.dim(0), batch_.sequence, batch_.micro}};
    ProcessGroup& group = wrong("counts_of_one_rank") ? alone() : *mesh_.find_tensor_context();
    const Tensor weight = cx.sink->inverse_weight(term_);
    cx.add_loss(term_, ops::balance_loss(cx, logits, {}, spec, weight, group, "balance"));
  }
  // Adds the bias to rows of logits as the gradient has them: it is a constant.
  Tensor biased(Context& cx, const Tensor& logits) const {
    std::vector<double> values, bias = read_values(*cx.device, bias_->value);
    for (i64 row = 0; row < logits.dim(0); ++row) {
      values.insert(values.end(), bias.begin(), bias.end());
    }
    const Tensor all = cx.empty(logits.shape(), logits.dtype());
    write_values(*cx.device, all, values);
    return ops::add(cx, logits, all);
  }
  Tensor last_of_ties(Context& cx, const Tensor& logits) const {
    const i64 n = logits.dim(0), all = logits.dim(1);
    const std::vector<double> values = read_values(*cx.device, logits);
    std::vector<i32> chosen;
    for (i64 row = 0; row < n; ++row) {
      std::vector<i32> order(static_cast<std::size_t>(all));
      std::iota(order.rbegin(), order.rend(), 0);
      std::ranges::stable_sort(order, std::ranges::greater(), [&](i32 e) {
        return values[static_cast<std::size_t>(row * all + e)];
      });
      chosen.insert(chosen.end(), order.begin(), order.begin() + config_.top_k);
    }
    const Tensor experts = cx.empty({n, config_.top_k}, DType::i32);
    cx.device->write(experts, chosen.data());
    return experts;
  }

  Config config_;
  const Mesh& mesh_;
  BatchShape batch_;
  TensorRegion region_;
  Slot row_ids_;
  RouterSpec spec_;
  Parameter& weight_;
  LossTerm term_;
  Buffer *bias_ = nullptr, *counts_ = nullptr;
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
  std::vector<Phase> do_phases() override {
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
      const Tensor inner =
          ops::weighted_activation(cx, ops::linear(cx, x, *up_, nullptr), {}, Activation::swiglu);
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
class MutantDispatcher final : public ForwardingDispatcher {
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
      : ForwardingDispatcher(build.child(
            "inner", config.inner, {{"experts", config.experts}, {"top_k", config.top_k}})),
        mistake_(config.mistake),
        several_(build.mesh().size(Axis::expert) * build.mesh().size(Axis::expert_tensor) > 1) {}

  ExpertRows do_dispatch(Context& cx,
                         Bundle& bundle,
                         const ExpertRows& rows,
                         const Meanwhile& meanwhile) const override {
    ExpertRows arrived = ForwardingDispatcher::do_dispatch(cx, bundle, rows, meanwhile);
    bundle.arrive(*cx.stream);
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

 private:
  static Tensor on_device(Context& cx, const std::vector<i32>& values) {
    Tensor made = cx.empty({static_cast<i64>(values.size())}, DType::i32);
    cx.device->write(made, values.data());
    return made;
  }

  std::string mistake_;
  bool several_;
};

}  // namespace

void register_moe_mutants(Registrar& registrar) {
  registrar.add<Router, MutantRouter>("mutant_router", "a router");
  registrar.add<Layer, MutantSharedLayer>("mutant_shared_layer", "a layer with experts");
  registrar.add<TokenDispatcher, MutantDispatcher>("mutant_dispatcher", "a dispatcher");
}

}  // namespace tessera::testing
