#include <algorithm>
#include <utility>

#include "tessera/model.hpp"
#include "tessera/ops.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

/// Final norm, logits over the vocabulary cut over the tensor group, and the mean cross entropy
/// against the slots "targets" (i64 [n]) and "loss_mask" (u8 [n]). Without targets (generation) it
/// leaves this rank's logits [n, vocabulary / t] in the slot "logits". An evaluation that wants the
/// loss of some rows only says which in "scored_rows" (i32 [m]; -1: none, without a loss): there
/// are no logits of others then.
///
/// With `ahead` its targets are so many positions later, and its loss, times `factor`, is an
/// auxiliary one that the metric "mtp" shows: a mean over the rows that have such a target.
class LmHead final : public Layer {
 public:
  struct Config {
    i64 hidden = 0, vocab = 0, vocab_multiple = 128, ahead = 0;
    bool tied = true, keep_hidden = false;
    double init_std = 0.02, factor = 1;
    std::string shared_weight;
    Component<Module> norm{"layernorm", {}};
    static void describe(Schema<Config>& s) {
      model_fields::hidden(s);
      model_fields::vocabulary(s);
      s.field("tied", &Config::tied, "use the token embedding's table")
          .from("model.tied_embeddings")
          .structural()
          .megatron("--untie-embeddings-and-output-weights");
      model_fields::init_std(
          s, "standard deviation of the table; of a tied one it is the embedding's");
      s.slot("norm", &Config::norm, "normalisation before the logits").megatron("--normalization");
      s.field("ahead", &Config::ahead, "how many positions after the next token its targets are")
          .given()
          .at_least(0)
          .at_most(kMostPositions);
      s.field("factor", &Config::factor, "of its loss").given().above(0);
      s.field("shared_weight",
              &Config::shared_weight,
              "the table of an untied head that uses another one's; empty: its own")
          .given();
      s.field("keep_hidden",
              &Config::keep_hidden,
              "training leaves what the norm made in the slot \"hidden\", for layers that follow")
          .given();
    }
  };

  LmHead(const Config& config, BuildContext& build)
      : region_(build.tensor_region()),
        hidden_(build.slot("hidden")),
        targets_(build.slot(later_input("targets", config.ahead))),
        mask_(build.slot(later_input("loss_mask", config.ahead))),
        logits_(build.slot(Model::kLogitsSlot)),
        scored_rows_(build.slot("scored_rows")),
        loss_(loss_of(config.ahead, build)),
        factor_(config.factor),
        keep_hidden_(config.keep_hidden),
        norm_(build.child("norm", config.norm)) {
    weight_ = &build.parameter({.name = "weight",
                                .shape = {config.vocab, config.hidden},
                                .split = {{0, Axis::tensor, {}, config.vocab_multiple}},
                                .init = Init::gaussian(config.init_std),
                                .tags = {"embedding"},
                                .share = config.tied ? "embedding.weight" : config.shared_weight,
                                .linear = true});
    const i64 local = weight_->local[0];
    first_ = region_.index() * local;
    valid_ = std::clamp<i64>(config.vocab - first_, 0, local);
  }

  std::vector<Phase> do_phases() override {
    return {{.scope = "head", .incremental = true, .run = [this](Context& cx, Bundle& bundle) {
               const Tensor x = (*norm_)(cx, bundle[hidden_]);
               bundle[hidden_] = keep_hidden_ && cx.training() ? x : Tensor();
               if (bundle[scored_rows_].defined()) return score_some(cx, x, bundle);
               Tensor logits = region_.column(cx, x, *weight_, nullptr);
               if (!bundle[targets_].defined()) {
                 bundle[logits_] = logits;
                 return;
               }
               add_loss(cx, std::move(logits), bundle[targets_], bundle[mask_]);
             }}};
  }

 private:
  void score_some(Context& cx, const Tensor& x, Bundle& bundle) const {
    require(!cx.training(), "the slot \"scored_rows\" is for evaluation");
    const Tensor& rows = bundle[scored_rows_];
    const auto chosen =
        [&](const Tensor& values) {  // of the targets as the layers before left them
          return ops::run(cx, PermuteRowsArgs{values.arg(), rows.arg(), {}})[0];
        };
    const auto column = [](const Tensor& values) { return values.view({values.dim(0), 1}); };
    const Shape one = {rows.dim(0)};
    Tensor logits = ops::linear(cx, chosen(region_.enter(cx, x)), *weight_, nullptr);
    add_loss(cx,
             std::move(logits),
             chosen(column(bundle[targets_])).view(one),
             chosen(column(bundle[mask_])).view(one));
  }

  void add_loss(Context& cx, Tensor logits, const Tensor& targets, const Tensor& mask) const {
    ops::add_cross_entropy(cx,
                           loss_,
                           std::move(logits),
                           targets,
                           mask,
                           first_,
                           valid_,
                           region_.group(),
                           region_.name(),
                           factor_);
  }

  // Each depth is a mean over its own rows, so each is a term; together they are one metric.
  static LossTerm loss_of(i64 ahead, BuildContext& build) {
    if (ahead == 0) return build.loss({.name = "lm"});
    return build.loss({.name = fmt::format("mtp.{}", ahead),
                       .auxiliary = true,
                       .mask = later_input("loss_mask", ahead),
                       .metric = "mtp"});
  }

  TensorRegion region_;
  Slot hidden_, targets_, mask_, logits_, scored_rows_;
  LossTerm loss_;
  double factor_;
  bool keep_hidden_;
  std::shared_ptr<Module> norm_;
  Parameter* weight_;
  i64 first_ = 0, valid_ = 0;
};

}  // namespace tessera

TESSERA_PLUGIN(lm_head, "0.1.0", "Language-model head with vocabulary-parallel cross entropy") {
  registrar.add<tessera::Layer, tessera::LmHead>(
      "lm_head", "final norm, logits and cross entropy, vocabulary cut over the tensor group");
}
