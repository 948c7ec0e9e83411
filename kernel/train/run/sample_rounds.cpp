#include "kernel/train/run/sample_rounds.hpp"

namespace tessera {

SampleRounds::SampleRounds(PlacedModel& model, const Dataset& dataset)
    : model_(model),
      microbatches_(static_cast<int>(model.setup().microbatches)),
      samples_(microbatches_ * model.setup().batch.micro * model.rank().mesh->size(Axis::data)),
      inputs_(dataset,
              model.parts(),
              model.setup().batch,
              *model.rank().mesh,
              *model.rank().device,
              microbatches_),
      executor_(model.chunks(), model.parts(), nullptr, *model.rank().mesh, model.boundaries()),
      plan_(model.plan(microbatches_, false)) {}

i64 SampleRounds::first_sample(int microbatch) const {
  const Mesh& mesh = *model_.rank().mesh;
  return (microbatch * mesh.size(Axis::data) + mesh.coordinate(Axis::data)) *
         model_.setup().batch.micro;
}

Context SampleRounds::context(StepSink& sink) const {
  Context cx = model_.rank().context();
  model_.prepared().prepare_all(cx);
  cx.sink = &sink;
  return cx;
}

void SampleRounds::run(Context& cx,
                       SampleSet set,
                       i64 first,
                       i64 count,
                       i64 begin,
                       const std::function<void(Context&, Bundle&)>& loaded,
                       const Executor::Done& done) {
  const int from = static_cast<int>(begin / samples_) * microbatches_;
  const auto request = [&](int microbatch) {
    return StepInputs::Request{set, first, count, microbatch};
  };
  const StepInputs::Request next = request(from + microbatches_);
  inputs_.upload(cx, request(from), begin + samples_ < count ? &next : nullptr, 0);
  const auto load = [&](Context& c, int microbatch, Bundle& bundle) {
    inputs_.load(microbatch, bundle);
    loaded(c, bundle);
  };
  executor_.evaluate(cx, plan_, load, done);
}

}  // namespace tessera
