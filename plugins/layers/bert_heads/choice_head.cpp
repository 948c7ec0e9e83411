#include "sample_heads.hpp"
#include "tessera/ops.hpp"

namespace tessera {

void ChoiceHead::Config::describe(Schema<Config>& s) {
  HeadKeys::describe(s);
  s.field("choices", &Config::choices, "equal parts of a sample, of which one is right")
      .at_least(2)
      .at_most(kMostFeatures);
  model_fields::dropout(s, "of the pooled rows");
  s.slot("pooler", &Config::pooler, "of the first row of each choice, before tanh");
  s.slot("linear", &Config::linear, "from the pooled row to one logit");
}

// All context-parallel ranks have the loss, and each the gradient of the choices that begin on it.
ChoiceHead::ChoiceHead(const Config& config, BuildContext& build)
    : rows_(config, build),
      pooler_(config.pooler, config, build),
      row_ids_(build.slot("row_ids")),
      scores_(build.slot(Model::kScoresSlot)),
      choices_(config.choices),
      dropout_(config.dropout),
      key_(build.random_site("dropout")),
      loss_({.loss = "label",
             .accuracy = "accuracy",
             .label = "label",
             .classes = config.choices,
             .key = "choices",
             .partial = {Axis::tensor, Axis::data}},
            build),
      linear_(head_linear("linear", config.linear, config.hidden, 1, config.init_std, build)) {
  const i64 positions = rows_.positions();
  if (positions % choices_ != 0) {
    build.reject("choices",
                 fmt::format("batch.sequence_length = {} positions do not divide into {} choices",
                             positions,
                             choices_));
  }
  build.bound("positions", positions / choices_, "choices");  // those of a choice begin at 0
  for (i64 choice = 0; choice < choices_; ++choice) {
    const i64 place = rows_.place_of(choice * (positions / choices_));
    if (place < 0) continue;
    here_.push_back(choice);
    places_.push_back(place);
  }
}

Tensor ChoiceHead::logits(Context& cx, const Tensor& rows, const Tensor& row_ids) const {
  const i64 samples = rows.dim(0) / rows_.sequence();
  const auto logit_of = [&](const Tensor& first, i64 place) {
    const Tensor ids = rows_.ids_at(cx, row_ids, place);
    return (*linear_)(cx, ops::dropout(cx, pooler_(cx, first), {}, ids, dropout_, key_));
  };
  std::vector<Tensor> parts(static_cast<std::size_t>(choices_));
  const std::vector<Tensor> first = rows_.at(cx, rows, places_);
  for (std::size_t i = 0; i < here_.size(); ++i) {
    parts[static_cast<std::size_t>(here_[i])] = logit_of(first[i], places_[i]);
  }
  // A rank on which no choice begins takes part all the same: every rank has the same parameters.
  if (here_.empty()) {
    parts[0] = ops::scale(cx, logit_of(rows_.first_of_samples(cx, rows), 0), 0);
  }
  for (Tensor& part : parts) {
    if (part.defined()) continue;
    part = cx.empty({samples, 1}, rows.dtype());
    ops::run(cx, FillArgs{part.arg(), 0});
  }
  return rows_.sum_over_context(cx, ops::join(cx, parts));
}

std::vector<Phase> ChoiceHead::do_phases() {
  return {{.scope = "head", .run = [this](Context& cx, Bundle& bundle) {
             const Tensor rows = rows_.take(cx, bundle);
             const Tensor scores = logits(cx, rows, bundle[row_ids_]);
             if (!cx.training()) bundle[scores_] = scores;
             loss_.add(cx, bundle, scores, rows_.tensor_share());
           }}};
}

}  // namespace tessera
