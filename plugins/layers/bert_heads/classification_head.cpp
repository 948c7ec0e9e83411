#include "sample_heads.hpp"
#include "tessera/ops.hpp"

namespace tessera {

void ClassificationHead::Config::describe(Schema<Config>& s) {
  HeadKeys::describe(s);
  s.field("classes", &Config::classes, "classes of a sample")
      .at_least(2)
      .at_most(kMostFeatures)
      .also("num_labels", "is classes of [model.head] here, with type = \"classification_head\"");
  model_fields::dropout(s, "of the pooled row");
  s.slot("pooler", &Config::pooler, "of the first row, before tanh");
  s.slot("linear", &Config::linear, "from the pooled row to the classes");
}

ClassificationHead::ClassificationHead(const Config& config, BuildContext& build)
    : rows_(config, build),
      pooler_(config.pooler, config, build),
      row_ids_(build.slot("row_ids")),
      scores_(build.slot(Model::kScoresSlot)),
      dropout_(config.dropout),
      key_(build.random_site("dropout")),
      loss_({.loss = "label",
             .accuracy = "accuracy",
             .label = "label",
             .classes = config.classes,
             .key = "classes",
             .partial = {Axis::tensor, Axis::context, Axis::data}},
            build),
      linear_(head_linear(
          "linear", config.linear, config.hidden, config.classes, config.init_std, build)) {}

std::vector<Phase> ClassificationHead::do_phases() {
  return {{.scope = "head", .run = [this](Context& cx, Bundle& bundle) {
             const Tensor rows = rows_.take(cx, bundle);
             const Tensor pooled = pooler_(cx, rows_.first_of_samples(cx, rows));
             const Tensor ids = rows_.ids_at(cx, bundle[row_ids_], 0);
             const Tensor kept = ops::dropout(cx, pooled, {}, ids, dropout_, key_);
             const Tensor logits = (*linear_)(cx, kept);
             if (!cx.training()) bundle[scores_] = logits;
             loss_.add(cx, bundle, logits, rows_.share());
           }}};
}

}  // namespace tessera
