#include "bert_head.hpp"

#include <algorithm>

#include "masked_rows.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

// Masks that are made as BERT's (Devlin et al. 2019, §3.1) select 15 % of a sample.
i64 usual_predictions(i64 sequence) { return (sequence * 15 + 99) / 100; }

}  // namespace

void BertHead::Config::describe(Schema<Config>& s) {
  HeadKeys::describe(s);
  s.field(
       "predictions",
       &Config::predictions,
       "most masked tokens of a sample, for which there is room; \"auto\": 15 % of its positions")
      .at_least(1)
      .at_most(kMostPositions)
      .also("max_predictions_per_seq");
  s.field("pairs",
          &Config::pairs,
          "samples are pairs, whose order is to be told; false: no pooler and no loss of it")
      .from("data.pairs");
  s.slot("dense", &Config::dense, "before GELU, norm and logits");
  s.slot("dense_norm", &Config::dense_norm, "normalisation before the logits");
  s.slot("pooler", &Config::pooler, "of the first row, before tanh; with pairs only");
  s.slot("sentence_order",
         &Config::sentence_order,
         "from the pooled row to two classes; with pairs only");
}

BertHead::BertHead(const Config& config, BuildContext& build)
    : rows_(config, build),
      targets_(build.slot("targets")),
      mask_(build.slot("loss_mask")),
      predictions_(config.predictions.value_or(usual_predictions(build.sequence_length()))),
      lm_(build.loss({.name = "lm", .most = predictions_, .most_key = "predictions"})),
      lm_accuracy_(build.metric({.name = "lm_accuracy", .of_validation = true})),
      dense_(
          head_linear("dense", config.dense, config.hidden, config.hidden, config.init_std, build)),
      dense_norm_(build.child("dense_norm", config.dense_norm, {}, ChildRows::own)) {
  if (config.pairs) add_pairs(config, build);
  const Split split{0, Axis::tensor, {}, config.vocab_multiple};
  weight_ = &build.parameter({.name = "weight",
                              .shape = {config.vocab, config.hidden},
                              .split = {split},
                              .init = Init::gaussian(config.init_std),
                              .tags = {"embedding"},
                              .share = "embedding.weight",
                              .linear = true});
  bias_ = &build.parameter(
      {.name = "bias", .shape = {config.vocab}, .split = {split}, .tags = {"bias"}});
  const i64 local = weight_->local[0];
  first_ = rows_.region().index() * local;
  valid_ = std::clamp<i64>(config.vocab - first_, 0, local);
}

void BertHead::add_pairs(const Config& config, BuildContext& build) {
  order_.emplace(LabelLossSpec{.loss = "order",
                               .accuracy = "order_accuracy",
                               .label = "label",
                               .classes = 2,
                               .key = "type",
                               .partial = {Axis::tensor, Axis::context, Axis::data}},
                 build);
  sentence_order_ = head_linear(
      "sentence_order", config.sentence_order, config.hidden, 2, config.init_std, build);
  pooler_.emplace(config.pooler, config, build);
}

std::vector<Phase> BertHead::do_phases() {
  return {{.scope = "head", .run = [this](Context& cx, Bundle& bundle) {
             require(bundle[targets_].defined() && bundle[mask_].defined(),
                     "a head of masked words needs targets and loss_mask of its data; it writes no "
                     "text");
             const Tensor rows = rows_.take(cx, bundle);
             add_masked_loss(cx, rows, bundle);
             if (pooler_) add_order_loss(cx, rows, bundle);
           }}};
}

void BertHead::add_masked_loss(Context& cx, const Tensor& rows, const Bundle& bundle) const {
  const i64 all = rows.dim(0), samples = all / rows_.sequence();
  const MaskedRows masked(cx, bundle[mask_], std::min(predictions_ * samples, all));
  const Tensor x = rows_.normed(cx, masked.of(cx, rows));
  const Tensor y = (*dense_norm_)(cx, ops::gelu_erf(cx, (*dense_)(cx, x)));
  ops::add_cross_entropy(cx,
                         lm_,
                         ops::linear(cx, y, *weight_, bias_),
                         masked.entries(cx, bundle[targets_]),
                         masked.entries(cx, bundle[mask_]),
                         first_,
                         valid_,
                         rows_.region().group(),
                         rows_.region().name(),
                         1,
                         lm_accuracy_);
}

void BertHead::add_order_loss(Context& cx, const Tensor& rows, const Bundle& bundle) const {
  const Tensor pooled = (*pooler_)(cx, rows_.first_of_samples(cx, rows));
  order_->add(cx, bundle, (*sentence_order_)(cx, pooled), rows_.share());
}

}  // namespace tessera
