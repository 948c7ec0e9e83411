#include "sample_heads.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

// Subtracted from logits that take no part: exp() of it is 0 in every dtype, and fp16 has it.
constexpr double kFar = 3e4;

}  // namespace

void SpanHead::Config::describe(Schema<Config>& s) {
  HeadKeys::describe(s);
  s.slot("linear", &Config::linear, "from each row to the logits of both ends");
}

// All context-parallel ranks have the loss, and each the gradient of its own rows.
SpanHead::SpanHead(const Config& config, BuildContext& build)
    : rows_(config, build),
      answerable_(build.slot("answerable")),
      scores_(build.slot(Model::kScoresSlot)),
      loss_({.loss = "span",
             .accuracy = "span_accuracy",
             .label = "answer",
             .classes = build.sequence_length(),
             .key = "type",
             .partial = {Axis::tensor, Axis::data}},
            build),
      linear_(head_linear("linear", config.linear, config.hidden, 2, config.init_std, build)) {}

Tensor SpanHead::logits(Context& cx, const Tensor& rows, const Tensor& answerable) const {
  const i64 n = rows.dim(0), samples = n / rows_.sequence();
  const Tensor far = cx.empty({n, 1}, rows.dtype()), minus = cx.empty({n, 1}, rows.dtype());
  ops::run(cx, CopyArgs{answerable.view({n, 1}).arg(), far.arg()});
  ops::run(cx, ScaleArgs{far.arg(), far.arg(), kFar});
  ops::run(cx, FillArgs{minus.arg(), -kFar});
  ops::run(cx, AddArgs{far.arg(), minus.arg(), far.arg()});
  const std::vector<Tensor> ends = ops::split(cx, (*linear_)(cx, rows_.normed(cx, rows)), {1, 1});
  std::vector<Tensor> whole;
  for (const Tensor& end : ends) {
    const Tensor allowed = ops::add(cx, end, far);
    const Tensor of_samples = ops::reshape(cx, allowed, {samples, rows_.sequence()});
    whole.push_back(rows_.whole_samples(cx, of_samples));
  }
  return ops::reshape(cx, ops::join(cx, whole), {samples * 2, rows_.positions()});
}

std::vector<Phase> SpanHead::do_phases() {
  return {{.scope = "head", .run = [this](Context& cx, Bundle& bundle) {
             require(bundle[answerable_].defined(),
                     "a span head needs \"answerable\" of its data, which has no such field");
             const Tensor rows = rows_.take(cx, bundle);
             const Tensor scores = logits(cx, rows, bundle[answerable_]);
             if (!cx.training()) {
               bundle[scores_] = scores.view({scores.dim(0) / 2, 2 * rows_.positions()});
             }
             loss_.add(cx, bundle, scores, rows_.tensor_share());
           }}};
}

}  // namespace tessera
