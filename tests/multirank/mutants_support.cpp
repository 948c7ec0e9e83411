#include "mutants_support.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sdk/src/autograd/linear_parts.hpp"
#include "tessera/build.hpp"
#include "tessera/data.hpp"
#include "tessera/model.hpp"
#include "tessera/ops.hpp"
#include "tessera/process_group.hpp"

namespace tessera::testing {

namespace {

struct LinearConfig {
  i64 in = 0, out = 0;
  std::vector<i64> sections;
  double init_std = 0.02;
  std::string mistake = "none";
  static void describe(Schema<LinearConfig>& s) {
    s.field("in", &LinearConfig::in, "input features").given();
    s.field("out", &LinearConfig::out, "output features").given();
    s.field("sections", &LinearConfig::sections, "fused outputs").given();
    s.field("init_std", &LinearConfig::init_std, "initial weights").from("model.init_std");
    describe_mistake(s, {"bias_before_reduce", "no_backward_reduce"});
  }
};

class MutantRowLinear final : public Module {
 public:
  using Config = LinearConfig;
  MutantRowLinear(const Config& config, BuildContext& build)
      : region_(build.tensor_region()),
        early_(config.mistake == "bias_before_reduce"),
        weight_(build.parameter({.name = "weight",
                                 .shape = {config.out, config.in},
                                 .split = {{1, Axis::tensor}},
                                 .init = Init::gaussian(config.init_std)})),
        bias_(
            build.parameter({.name = "bias",
                             .shape = {config.out},
                             .tags = {"bias"},
                             .placement = early_ ? Placement::replicated() : region_.per_row()})) {}

  Tensor do_forward(Context& cx, const Tensor& x) const override {
    if (!early_) return region_.row(cx, x, weight_, &bias_);
    return region_.leave(cx, ops::linear(cx, x, weight_, &bias_));
  }

 private:
  TensorRegion region_;
  bool early_;
  Parameter &weight_, &bias_;
};

class MutantNorm final : public Module {
 public:
  struct Config {
    i64 hidden = 0;
    std::string mistake = "none";
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden");
      describe_mistake(s, {"gradient_not_summed"});
    }
  };
  MutantNorm(const Config& config, BuildContext& build) {
    const Placement placement =
        config.mistake == "none" ? build.tensor_region().per_row() : Placement::replicated();
    weight_ = &build.parameter({.name = "weight",
                                .shape = {config.hidden},
                                .init = Init::ones(),
                                .tags = {"norm"},
                                .placement = placement});
    bias_ = &build.parameter({.name = "bias",
                              .shape = {config.hidden},
                              .tags = {"norm", "bias"},
                              .placement = placement});
  }
  Tensor do_forward(Context& cx, const Tensor& x) const override {
    return ops::layernorm(cx, x, *weight_, *bias_, 1e-5);
  }

 private:
  Parameter *weight_, *bias_;
};

class MutantColumnLinear final : public Module {
 public:
  using Config = LinearConfig;
  MutantColumnLinear(const Config& config, BuildContext& build)
      : region_(build.tensor_region()), reduces_(config.mistake != "no_backward_reduce") {
    const Split split{0, Axis::tensor, config.sections};
    weight_ = &build.parameter({.name = "weight",
                                .shape = {config.out, config.in},
                                .split = {split},
                                .init = Init::gaussian(config.init_std)});
    bias_ = &build.parameter(
        {.name = "bias", .shape = {config.out}, .split = {split}, .tags = {"bias"}});
  }

  Tensor do_forward(Context& cx, const Tensor& x) const override {
    if (reduces_) return region_.column(cx, x, *weight_, bias_);
    return ops::linear(cx, x, *weight_, bias_);
  }

 private:
  TensorRegion region_;
  bool reduces_;
  Parameter *weight_, *bias_;
};

// The heads' dropout mask: global heads, or on every rank the same as on the first.
class MutantAttention final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, heads = 0, layers = 1;
    double dropout = 0, init_std = 0.02;
    std::string mistake = "none";
    Component<Module> qkv{"column_linear", {}}, proj{"row_linear", {}};
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden");
      s.field("heads", &Config::heads, "heads").from("model.heads");
      s.field("layers", &Config::layers, "for initial weights").from("model.layers");
      s.field("dropout", &Config::dropout, "of probabilities").from("model.dropout");
      s.field("init_std", &Config::init_std, "initial weights").from("model.init_std");
      s.slot("qkv", &Config::qkv, "projection in");
      s.slot("proj", &Config::proj, "projection out");
      describe_mistake(s, {"same_mask_on_every_rank"});
    }
  };
  MutantAttention(const Config& config, BuildContext& build)
      : hidden_(build.slot("hidden")), row_ids_(build.slot("row_ids")) {
    const i64 h = config.hidden, heads = config.heads / build.mesh().size(Axis::tensor);
    const double scale = std::sqrt(2.0 * static_cast<double>(config.layers));
    qkv_ = build.child(
        "qkv", config.qkv, {{"in", h}, {"out", 3 * h}, {"sections", Value::Array{h, h, h}}});
    proj_ = build.child(
        "proj", config.proj, {{"in", h}, {"out", h}, {"init_std", config.init_std / scale}});
    shape_ = {build.batch().micro, build.batch().sequence, heads, heads, h / config.heads};
    spec_.scale = 1 / std::sqrt(static_cast<double>(shape_.head_dim));
    spec_.causal = true;
    spec_.dropout = config.dropout;
    spec_.key = build.random_site("attention");
    if (config.mistake == "none") {
      spec_.head_offset = build.mesh().coordinate(Axis::tensor) * heads;
    }
  }

  std::vector<Phase> do_phases() override {
    return {{.scope = "attn", .run = [this](Context& cx, Bundle& bundle) {
               const Tensor qkv = (*qkv_)(cx, bundle[hidden_]);
               const Tensor heads = ops::attention(cx, qkv, bundle[row_ids_], shape_, spec_);
               bundle[hidden_] = (*proj_)(cx, heads);
             }}};
  }

 private:
  Slot hidden_, row_ids_;
  ops::AttentionShape shape_;
  AttentionSpec spec_;
  std::shared_ptr<Module> qkv_, proj_;
};

// The embedding with rows numbered behind it as the local batch has them: every data-parallel rank
// then repeats the dropout masks of the first. Or with rows numbered within the part that a rank of
// the tensor group keeps under sequence parallelism: all repeat the mask of the first part.
class MutantEmbedding final : public Layer {
 public:
  struct Config {
    i64 vocab = 0, vocab_multiple = 128;
    std::string mistake = "none";
    Component<Layer> inner{"embedding", {}};
    static void describe(Schema<Config>& s) {
      s.field("vocab", &Config::vocab, "entries").given();
      s.field("vocab_multiple", &Config::vocab_multiple, "padding").given();
      s.slot("inner", &Config::inner, "the embedding");
      describe_mistake(s, {"local_rows", "rows_of_the_first_part"});
    }
  };
  MutantEmbedding(const Config& config, BuildContext& build)
      : local_(config.mistake == "local_rows"),
        parts_(config.mistake == "rows_of_the_first_part" ? build.mesh().size(Axis::tensor) : 1),
        row_ids_(build.slot("row_ids")),
        micro_(build.batch().micro),
        ranks_(build.mesh().size(Axis::data)),
        inner_(build.child("",
                           config.inner,
                           {{"vocab", config.vocab}, {"vocab_multiple", config.vocab_multiple}})) {}

  std::vector<Phase> do_phases() override {
    std::vector<Phase> phases = inner_->phases();
    phases[0].run = [this, inner = std::move(phases[0].run)](Context& cx, Bundle& bundle) {
      if (local_) bundle[row_ids_] = local_rows(cx, bundle[row_ids_]);
      const Tensor rows = bundle[row_ids_];
      bundle[row_ids_] = rows_of_the_first_part(cx, rows);
      inner(cx, bundle);
      bundle[row_ids_] = rows;
    };
    return phases;
  }

 private:
  static constexpr i64 kGlobal = 8;  // samples a step of tiny_config()
  Tensor local_rows(Context& cx, const Tensor& rows) const {
    std::vector<i64> ids(static_cast<std::size_t>(rows.elements()));
    cx.device->read(rows, ids.data());
    for (i64& id : ids) {
      const i64 sample = row_sample(id), in_step = sample % kGlobal;
      const i64 microbatch = in_step / (micro_ * ranks_);
      id = row_id(sample - in_step + microbatch * micro_ + in_step % micro_, row_position(id));
    }
    Tensor local = cx.empty(rows.shape(), DType::i64);
    cx.device->write(local, ids.data());
    return local;
  }

  Tensor rows_of_the_first_part(Context& cx, const Tensor& rows) const {
    if (parts_ == 1) return rows;
    std::vector<i64> ids(static_cast<std::size_t>(rows.elements()));
    cx.device->read(rows, ids.data());
    const std::size_t part = ids.size() / static_cast<std::size_t>(parts_);
    for (std::size_t i = part; i < ids.size(); ++i) ids[i] = ids[i % part];
    Tensor repeated = cx.empty(rows.shape(), DType::i64);
    cx.device->write(repeated, ids.data());
    return repeated;
  }

  bool local_;
  i64 parts_;
  Slot row_ids_;
  i64 micro_, ranks_;
  std::shared_ptr<Layer> inner_;
};

Tensor scale_gradient(Context& cx, const Tensor& x, double factor) {
  if (!cx.recording() || factor == 1) return x;
  Tensor y = x.with_var({});
  cx.tape->record(
      "scale_gradient", std::array{x}, std::array{&y}, [factor](Context& c, Gradients& g) {
        ScaleArgs args{g.output(0).arg(), {}, factor};
        g.input(0, ops::run(c, args)[0]);
      });
  return y;
}

// As ops::linear, with the gradient of the weight times a factor.
Tensor linear(Context& cx, const Tensor& x, Parameter& weight, double factor) {
  Tensor y = linear_parts::forward(cx, x, weight, nullptr);
  if (!cx.recording()) return y;
  const auto input_half = [&weight](Context& c, Gradients& g) {
    g.input(0, linear_parts::input_gradient(c, g.output(0), weight));
  };
  const auto weight_half = [x = x.with_var({}), &weight, factor](Context& c, Gradients& g) {
    if (factor == 0) return;
    ScaleArgs scale{g.output(0).arg(), {}, factor};
    const Tensor scaled = ops::run(c, scale)[0];
    linear_parts::add_weight_gradient(c, scaled, x, weight, nullptr);
  };
  cx.tape->record("linear", std::array{x}, std::array{&y}, input_half, weight_half);
  return y;
}

class MutantHead final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, vocab = 0, vocab_multiple = 128;
    std::string mistake = "none";
    Component<Module> norm{"layernorm", {}};
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden");
      s.field("vocab", &Config::vocab, "entries").given();
      s.field("vocab_multiple", &Config::vocab_multiple, "padding").given();
      s.slot("norm", &Config::norm, "normalisation");
      describe_mistake(s,
                       {"halved_tied",
                        "dropped_tied",
                        "tied_averaged_over_stages",
                        "mean_over_data",
                        "no_copy"});
    }
  };
  MutantHead(const Config& config, BuildContext& build)
      : region_(build.tensor_region()),
        hidden_(build.slot("hidden")),
        targets_(build.slot("targets")),
        mask_(build.slot("loss_mask")),
        loss_(build.loss({.name = "lm"})),
        norm_(build.child("norm", config.norm)),
        weight_(build.parameter({.name = "weight",
                                 .shape = {config.vocab, config.hidden},
                                 .split = {{0, Axis::tensor, {}, config.vocab_multiple}},
                                 .init = Init::gaussian(0.02),
                                 .tags = {"embedding"},
                                 .share = "embedding.weight"})),
        first_(region_.index() * weight_.local[0]),
        valid_(std::clamp<i64>(config.vocab - first_, 0, weight_.local[0])),
        copies_(config.mistake != "no_copy") {
    if (config.mistake == "halved_tied") tied_factor_ = 0.5;
    if (config.mistake == "dropped_tied") tied_factor_ = 0;
    if (config.mistake == "tied_averaged_over_stages") {
      tied_factor_ = 1 / static_cast<double>(build.mesh().size(Axis::pipeline));
    }
    if (config.mistake == "mean_over_data") {
      loss_factor_ = 1 / static_cast<double>(build.mesh().size(Axis::data));
    }
  }

  std::vector<Phase> do_phases() override {
    return {{.scope = "head", .run = [this](Context& cx, Bundle& bundle) {
               Tensor x = (*norm_)(cx, bundle[hidden_]);
               if (copies_) x = region_.enter(cx, x);
               const Tensor logits =
                   scale_gradient(cx, linear(cx, x, weight_, tied_factor_), loss_factor_);
               cx.add_loss(loss_,
                           ops::cross_entropy(cx,
                                              logits,
                                              bundle[targets_],
                                              bundle[mask_],
                                              cx.sink->inverse_weight(loss_),
                                              first_,
                                              valid_,
                                              region_.group(),
                                              region_.name()));
             }}};
  }

 private:
  TensorRegion region_;
  Slot hidden_, targets_, mask_;
  LossTerm loss_;
  std::shared_ptr<Module> norm_;
  Parameter& weight_;
  i64 first_, valid_;
  bool copies_;
  double tied_factor_ = 1, loss_factor_ = 1;
};

// Adds up the norm over the parameters, with replicated ones once or once a rank.
class MutantOptimizer final : public Optimizer {
 public:
  struct Config {
    double clip = 0;
    std::string mistake = "none";
    Component<UpdateRule> rule{"adamw", {}};
    static void describe(Schema<Config>& s) {
      s.field("clip", &Config::clip, "bound of the norm");
      s.slot("rule", &Config::rule, "update");
      describe_mistake(s, {"norm_of_every_replica", "norm_without_replicas", "norm_of_every_copy"});
    }
  };
  MutantOptimizer(const Config& config, OptimizerArguments& arguments)
      : config_(config),
        first_(arguments.mesh->first(Axis::tensor)),
        rule_(arguments.make_rule(config.rule)),
        shards_(shards_without_groups(arguments, *rule_)) {}

  void do_sum_squares(Context& cx, const Tensor& out) override {
    for (std::size_t i = 0; i < shards_.list.size(); ++i) {
      const ParameterLayout& layout = shards_.list[i].parameter->layout;
      const bool whole = !layout.cut(Axis::tensor);
      if (whole && config_.mistake == "norm_without_replicas") continue;
      if (whole && !first_ && config_.mistake != "norm_of_every_replica") continue;
      if (layout.holders().size() > 1 && !layout.counted() &&
          config_.mistake != "norm_of_every_copy")
        continue;
      SumSquaresArgs args{
          shards_.grad_of(i).arg(), {}, out.slice(0, layout.expert() ? 1 : 0, 1).arg()};
      ops::run(cx, args);
    }
  }
  void do_step(Context& cx, const Tensor& scalars) override { rule_->update(cx, shards_, scalars); }
  double do_clip() const override { return config_.clip; }
  std::vector<NamedState> do_state() override { return {}; }

 private:
  Config config_;
  bool first_;
  std::shared_ptr<UpdateRule> rule_;
  Shards shards_;
};

}  // namespace

Shards shards_without_groups(const OptimizerArguments& arguments, const UpdateRule& rule) {
  Shards shards(*arguments.memory, own_shards(*arguments.memory));
  for (Shard& shard : shards.list) {
    shard.hyper = usual_hyper(*shard.parameter, rule.weight_decay());
  }
  shards.allocate(*arguments.device, rule.state().size());
  return shards;
}

void register_mutants(Registrar& registrar) {
  registrar.add<Module, MutantRowLinear>("mutant_row_linear", "row linear");
  registrar.add<Module, MutantNorm>("mutant_norm", "norm");
  registrar.add<Module, MutantColumnLinear>("mutant_column_linear", "column linear");
  registrar.add<Layer, MutantAttention>("mutant_attention", "attention");
  registrar.add<Layer, MutantEmbedding>("mutant_embedding", "embedding");
  registrar.add<Layer, MutantHead>("mutant_head", "head");
  registrar.add<Optimizer, MutantOptimizer>("mutant_optimizer", "optimizer");
}

}  // namespace tessera::testing
