// BERT's parts written once more, in the plain way, with the mistakes that they invite.
#include <algorithm>
#include <array>
#include <utility>

#include "mutants_support.hpp"
#include "tessera/build.hpp"
#include "tessera/model.hpp"
#include "tessera/moe_ops.hpp"

namespace tessera::testing {

namespace {

// What inverse_weight() says of one term; everything else goes to the run's own sink.
class OtherWeight final : public StepSink {
 public:
  OtherWeight(StepSink& inner, LossTerm term, Tensor weight)
      : inner_(inner), term_(term), weight_(std::move(weight)) {}
  Tensor inverse_weight(LossTerm term) override {
    return term.index == term_.index ? weight_ : inner_.inverse_weight(term);
  }
  void add_loss(Context& cx, LossTerm term, const Tensor& scalar) override {
    inner_.add_loss(cx, term, scalar);
  }
  void report(Context& cx, Metric metric, const Tensor& scalar) override {
    inner_.report(cx, metric, scalar);
  }
  void count(Context& cx, Counts counts, i64 set, const Tensor& entries) override {
    inner_.count(cx, counts, set, entries);
  }

 private:
  StepSink& inner_;
  LossTerm term_;
  Tensor weight_;
};

std::shared_ptr<Module> own_linear(std::string_view name, i64 in, i64 out, BuildContext& build) {
  return build.child(name,
                     Component<Module>{"whole_linear", {}},
                     {{"in", in}, {"out", out}, {"bias", true}},
                     ChildRows::own);
}

// Both objectives of order = "post". Rows are selected on the host.
class MutantBertHead final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, vocab = 0, vocab_multiple = 128;
    std::string mistake = "none";
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden");
      s.field("vocab", &Config::vocab, "entries").given();
      s.field("vocab_multiple", &Config::vocab_multiple, "padding").given();
      describe_mistake(s,
                       {"mask_of_another_microbatch",
                        "mean_by_sample",
                        "order_of_each_tensor_rank",
                        "order_times_context",
                        "pooled_on_each_context_rank",
                        "bias_whole",
                        "tied_gradient_once",
                        "label_swapped"});
    }
  };
  MutantBertHead(const Config& config, BuildContext& build)
      : mistake_(config.mistake),
        region_(build.tensor_region()),
        hidden_(build.slot("hidden")),
        targets_(build.slot("targets")),
        mask_(build.slot("loss_mask")),
        label_(build.slot("label")),
        label_mask_(build.slot("label_mask")),
        sequence_(build.batch().sequence),
        context_ranks_(static_cast<double>(build.mesh().size(Axis::context))),
        first_tensor_(build.mesh().first(Axis::tensor)),
        first_context_(build.mesh().first(Axis::context)),
        lm_(build.loss({.name = "lm"})),
        order_(build.loss({.name = "order",
                           .mask = "label_mask",
                           .partial = {Axis::tensor, Axis::context, Axis::data}})),
        dense_(own_linear("dense", config.hidden, config.hidden, build)),
        norm_(build.child("dense_norm", Component<Module>{"layernorm", {}}, {}, ChildRows::own)),
        classes_(own_linear("sentence_order", config.hidden, 2, build)),
        pooler_(own_linear("pooler", config.hidden, config.hidden, build)) {
    const Split split{0, Axis::tensor, {}, config.vocab_multiple};
    weight_ = &build.parameter({.name = "weight",
                                .shape = {config.vocab, config.hidden},
                                .split = {split},
                                .init = Init::gaussian(0.02),
                                .tags = {"embedding"},
                                .share = "embedding.weight",
                                .linear = true});
    ParameterSpec bias{.name = "bias", .shape = {config.vocab}, .tags = {"bias"}};
    if (is("bias_whole")) {
      bias.placement = Placement::replicated();
    } else {
      bias.split = {split};
    }
    bias_ = &build.parameter(bias);
    first_ = region_.index() * weight_->local[0];
    valid_ = std::clamp<i64>(config.vocab - first_, 0, weight_->local[0]);
  }

  std::vector<Phase> do_phases() override {
    return {{.scope = "head", .run = [this](Context& cx, Bundle& bundle) {
               const Tensor rows = region_.enter(cx, std::exchange(bundle[hidden_], {}));
               add_masked(cx, rows, bundle);
               add_order(cx, rows, bundle);
             }}};
  }

 private:
  bool is(std::string_view mistake) const { return mistake_ == mistake; }

  Tensor with_bias(Context& cx, const Tensor& x) const {
    const i64 begin = is("bias_whole") ? first_ : 0, width = weight_->local[0];
    const Tensor part = bias_->compute.slice(0, begin, width);
    Tensor y = ops::run(cx, AddBiasArgs{x.arg(), part.arg(), {}})[0];
    if (!cx.recording()) return y;
    const Tensor grad = bias_->grad.slice(0, begin, width);
    cx.tape->record("with_bias", std::array{x}, std::array{&y}, [grad](Context& c, Gradients& g) {
      ops::run(c, ColumnSumArgs{g.output(0).arg(), grad.arg()});
      g.input(0, g.output(0));
    });
    return y;
  }

  void add_masked(Context& cx, const Tensor& rows, const Bundle& bundle) {
    std::vector<u8> mask(static_cast<std::size_t>(rows.dim(0)));
    cx.device->read(bundle[mask_], mask.data());
    const std::vector<u8> before = std::exchange(mask_before_, mask);
    if (is("mask_of_another_microbatch") && before.size() == mask.size()) mask = before;
    std::vector<i32> chosen;
    for (std::size_t row = 0; row < mask.size(); ++row) {
      if (mask[row] != 0) chosen.push_back(static_cast<i32>(row));
    }
    const auto masked = static_cast<double>(chosen.size());
    if (chosen.empty()) chosen.push_back(-1);
    const Tensor order = cx.empty({static_cast<i64>(chosen.size())}, DType::i32);
    cx.device->write(order, chosen.data());
    const auto entries = [&](const Tensor& of) {
      const Tensor column = of.view({of.elements(), 1});
      return ops::run(cx, PermuteRowsArgs{column.arg(), order.arg(), {}})[0].view({order.dim(0)});
    };
    const Tensor x = ops::permute_rows(cx, rows, order, 1);
    const Tensor y = (*norm_)(cx, ops::gelu_erf(cx, (*dense_)(cx, x)));
    const double tied = is("tied_gradient_once") ? 0 : 1;
    Context with = cx;
    const Tensor weight = cx.empty({1}, DType::fp64);
    constexpr double kMicrobatches = 4;  // of a step of tiny_config()
    const double inverse = masked == 0 ? 0 : 1 / (masked * kMicrobatches);
    cx.device->write(weight, &inverse);
    OtherWeight other(*cx.sink, lm_, weight);
    if (is("mean_by_sample")) with.sink = &other;
    ops::add_cross_entropy(with,
                           lm_,
                           with_bias(cx, scaled_linear(cx, y, *weight_, tied)),
                           entries(bundle[targets_]),
                           entries(bundle[mask_]),
                           first_,
                           valid_,
                           region_.group(),
                           region_.name());
  }

  double share() const {
    if (is("order_of_each_tensor_rank")) return first_context_ ? 1 : 0;
    if (!first_tensor_) return 0;
    if (is("pooled_on_each_context_rank")) return 1 / context_ranks_;
    if (is("order_times_context")) return first_context_ ? context_ranks_ : 0;
    return first_context_ ? 1 : 0;
  }

  void add_order(Context& cx, const Tensor& rows, const Bundle& bundle) const {
    const i64 samples = rows.dim(0) / sequence_, hidden = rows.dim(1);
    const Tensor first =
        ops::slice(cx, ops::reshape(cx, rows, {samples, sequence_ * hidden}), 1, 0, hidden);
    const Tensor logits = (*classes_)(cx, ops::tanh(cx, (*pooler_)(cx, first)));
    const Tensor labels = changed_ids(cx, bundle[label_], [this](std::vector<i64>& ids) {
      for (i64& id : ids) id = is("label_swapped") ? 1 - id : id;
    });
    ops::add_cross_entropy(cx, order_, logits, labels, bundle[label_mask_], share());
  }

  std::string mistake_;
  TensorRegion region_;
  Slot hidden_, targets_, mask_, label_, label_mask_;
  i64 sequence_;
  double context_ranks_;
  bool first_tensor_, first_context_;
  LossTerm lm_, order_;
  std::shared_ptr<Module> dense_, norm_, classes_, pooler_;
  Parameter* weight_;
  Parameter* bias_;
  i64 first_ = 0, valid_ = 0;
  std::vector<u8> mask_before_;
};

// One of several choices, of whole samples on one context rank.
class MutantChoiceHead final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, vocab = 0, vocab_multiple = 0, choices = 4;
    std::string mistake = "none";
    static void describe(Schema<Config>& s) {
      s.field("hidden", &Config::hidden, "features").from("model.hidden");
      s.field("vocab", &Config::vocab, "entries").given();
      s.field("vocab_multiple", &Config::vocab_multiple, "padding").given();
      s.field("choices", &Config::choices, "of a sample");
      describe_mistake(s, {"softmax_over_the_batch"});
    }
  };
  MutantChoiceHead(const Config& config, BuildContext& build)
      : batch_(config.mistake == "softmax_over_the_batch"),
        region_(build.tensor_region()),
        hidden_(build.slot("hidden")),
        label_(build.slot("label")),
        label_mask_(build.slot("label_mask")),
        choices_(config.choices),
        part_(build.batch().sequence / config.choices),
        share_(build.mesh().first(Axis::tensor) ? 1 : 0),
        loss_(build.loss(
            {.name = "label", .mask = "label_mask", .partial = {Axis::tensor, Axis::data}})),
        pooler_(own_linear("pooler", config.hidden, config.hidden, build)),
        linear_(own_linear("linear", config.hidden, 1, build)) {}

  std::vector<Phase> do_phases() override {
    return {{.scope = "head", .run = [this](Context& cx, Bundle& bundle) {
               const Tensor rows = region_.enter(cx, std::exchange(bundle[hidden_], {}));
               const i64 all = rows.dim(0) / part_, hidden = rows.dim(1);
               const Tensor first =
                   ops::slice(cx, ops::reshape(cx, rows, {all, part_ * hidden}), 1, 0, hidden);
               const Tensor logits = (*linear_)(cx, ops::tanh(cx, (*pooler_)(cx, first)));
               const i64 samples = all / choices_;
               const Tensor labels = changed_ids(cx, bundle[label_], [this](auto& ids) {
                 for (std::size_t i = 0; i < ids.size() && batch_; ++i) {
                   ids[i] += static_cast<i64>(i) * choices_;
                 }
               });
               Tensor scores = ops::reshape(cx, logits, {samples, choices_});
               if (batch_) {  // each row has the choices of all samples
                 scores = ops::reshape(cx, logits, {1, all});
                 scores = ops::permute_rows(cx, scores, zeros(cx, samples), 1);
               }
               ops::add_cross_entropy(cx, loss_, scores, labels, bundle[label_mask_], share_);
             }}};
  }

 private:
  static Tensor zeros(Context& cx, i64 count) {
    const Tensor order = cx.empty({count}, DType::i32);
    ops::run(cx, FillArgs{order.arg(), 0});
    return order;
  }

  bool batch_;
  TensorRegion region_;
  Slot hidden_, label_, label_mask_;
  i64 choices_, part_;
  double share_;
  LossTerm loss_;
  std::shared_ptr<Module> pooler_, linear_;
};

// A block of order = "post", of sub-layers with one phase.
class MutantPostBlock final : public Layer {
 public:
  struct Config {
    double dropout = 0;
    std::string mistake = "none";
    Component<Module> norm{"layernorm", {}};
    Component<Layer> attention{"self_attention", {}}, mlp{"mlp", {}};
    static void describe(Schema<Config>& s) {
      s.field("dropout", &Config::dropout, "of sub-layers").from("model.dropout");
      describe_mistake(s, {"residual_after_the_norm", "padding_is_seen"});
      s.slot("norm", &Config::norm, "normalisation");
      s.slot("attention", &Config::attention, "the first sub-layer");
      s.slot("mlp", &Config::mlp, "the second sub-layer");
    }
  };
  MutantPostBlock(const Config& config, BuildContext& build)
      : after_(config.mistake == "residual_after_the_norm"),
        seen_(config.mistake == "padding_is_seen"),
        region_(build.tensor_region()),
        dropout_(config.dropout),
        positions_(build.sequence_length()),
        hidden_(build.slot("hidden")),
        row_ids_(build.slot("row_ids")),
        last_(build.slot("last")) {
    for (const auto& [name, component] :
         {std::pair{"attention", config.attention}, {"mlp", config.mlp}}) {
      sublayers_.push_back({build.child(fmt::format("{}_norm", name), config.norm),
                            build.child(name, component),
                            build.random_site(name)});
    }
  }

  std::vector<Phase> do_phases() override {
    std::vector<Phase> all;
    for (SubLayer& sublayer : sublayers_) {
      Phase phase = sublayer.layer->phases().front();
      phase.run = [this, inner = std::move(phase.run), &sublayer](Context& cx, Bundle& bundle) {
        const Tensor x = bundle[hidden_], last = bundle[last_];
        if (seen_) bundle[last_] = to_the_end(cx, last);
        inner(cx, bundle);
        bundle[last_] = last;
        const Tensor rows = region_.own_rows(bundle[row_ids_]);
        const auto dropped = [&](const Tensor& residual) {
          return ops::dropout(cx, bundle[hidden_], residual, rows, dropout_, sublayer.key);
        };
        bundle[hidden_] = after_ ? ops::add(cx, x, (*sublayer.norm)(cx, dropped({})))
                                 : (*sublayer.norm)(cx, dropped(x));
      };
      all.push_back(std::move(phase));
    }
    return all;
  }

 private:
  struct SubLayer {
    std::shared_ptr<Module> norm;
    std::shared_ptr<Layer> layer;
    u64 key;
  };
  Tensor to_the_end(Context& cx, const Tensor& last) const {
    const Tensor end = cx.empty(last.shape(), DType::i32);
    ops::run(cx, FillArgs{end.arg(), static_cast<double>(positions_ - 1)});
    return end;
  }

  bool after_, seen_;
  TensorRegion region_;
  double dropout_;
  i64 positions_;
  Slot hidden_, row_ids_, last_;
  std::vector<SubLayer> sublayers_;
};

class MutantBertEmbedding final : public Layer {
 public:
  struct Config {
    i64 vocab = 0, vocab_multiple = 128;
    std::string mistake = "none";
    static void describe(Schema<Config>& s) {
      s.field("vocab", &Config::vocab, "entries").given();
      s.field("vocab_multiple", &Config::vocab_multiple, "padding").given();
      describe_mistake(s, {"segment_of_the_next_token"});
    }
  };
  MutantBertEmbedding(const Config& config, BuildContext& build)
      : next_(config.mistake == "segment_of_the_next_token"),
        segments_(build.slot("segments")),
        inner_(build.child("",
                           Component<Layer>{"bert_embedding", {}},
                           {{"vocab", config.vocab}, {"vocab_multiple", config.vocab_multiple}})) {}

  std::vector<Phase> do_phases() override {
    std::vector<Phase> phases = inner_->phases();
    phases[0].run = [this, inner = std::move(phases[0].run)](Context& cx, Bundle& bundle) {
      const Tensor right = bundle[segments_];
      bundle[segments_] = changed_ids(cx, right, [this](std::vector<i64>& ids) {
        if (next_) std::ranges::rotate(ids, ids.begin() + 1);
      });
      inner(cx, bundle);
      bundle[segments_] = right;
    };
    return phases;
  }

 private:
  bool next_;
  Slot segments_;
  std::shared_ptr<Layer> inner_;
};

}  // namespace

void register_bert_mutants(Registrar& registrar) {
  registrar.add<Layer, MutantBertHead>("mutant_bert_head", "both objectives");
  registrar.add<Layer, MutantChoiceHead>("mutant_choice_head", "choices");
  registrar.add<Layer, MutantPostBlock>("mutant_post_block", "a block");
  registrar.add<Layer, MutantBertEmbedding>("mutant_bert_embedding", "an embedding");
}

}  // namespace tessera::testing
