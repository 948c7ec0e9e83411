#include "kernel/train/run/row_scores.hpp"

#include <algorithm>

namespace tessera {

RowScores::RowScores(PlacedModel& model, const Dataset& dataset)
    : model_(model),
      microbatches_(static_cast<int>(model.setup().microbatches)),
      length_(model.setup().sequence_length),
      samples_(microbatches_ * model.setup().batch.micro * model.rank().mesh->size(Axis::data)),
      sums_(model.parts(), *model.rank().device),
      inputs_(dataset,
              model.parts(),
              model.setup().batch,
              *model.rank().mesh,
              *model.rank().device,
              microbatches_),
      scored_(model.parts(), inputs_.reader(), *model.rank().device),
      executor_(model.chunks(), model.parts(), nullptr, *model.rank().mesh, model.boundaries()),
      plan_(model.plan(microbatches_, false)) {}

std::vector<double> RowScores::run(SampleSet set, i64 first, i64 count, i64 begin) {
  const Mesh& mesh = *model_.rank().mesh;
  Device& device = *model_.rank().device;
  const BatchShape& batch = model_.setup().batch;
  const i64 micro = batch.micro, local = batch.sequence;
  Context cx = model_.rank().context();
  model_.prepared().prepare_all(cx);
  cx.sink = &sums_;
  const int from = static_cast<int>(begin / samples_) * microbatches_;
  const auto request = [&](int microbatch) {
    return StepInputs::Request{set, first, count, microbatch};
  };
  const StepInputs::Request next = request(from + microbatches_);
  inputs_.upload(cx, request(from), begin + samples_ < count ? &next : nullptr, 0);
  std::vector<double> values(static_cast<std::size_t>(samples_ * length_ * 2), 0);
  const auto load = [&](Context& c, int microbatch, Bundle& bundle) {
    inputs_.load(microbatch, bundle);
    scored_.choose(c, bundle);
  };
  executor_.evaluate(cx, plan_, load, [&](Context& c, int microbatch, Bundle& bundle) {
    const std::vector<i32> rows = scored_.of(bundle);
    const std::vector<double> own = sums_.take(c, static_cast<i64>(rows.size()));
    if (!mesh.first(Axis::tensor)) return;  // the others have the same
    const i64 sample = (microbatch * mesh.size(Axis::data) + mesh.coordinate(Axis::data)) * micro;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] < 0) continue;
      const i64 at = inputs_.reader().position(rows[i] % local);
      const i64 to = ((sample + rows[i] / local) * length_ + at) * 2;
      std::copy_n(own.begin() + static_cast<i64>(2 * i), 2, values.begin() + to);
    }
  });
  if (mesh.world_size() == 1) return values;
  const Tensor all = cx.empty({static_cast<i64>(values.size())}, DType::fp64);
  device.write(all, values.data());
  mesh.world().all_reduce(*cx.stream, all, ReduceOp::sum, "scores").wait(*cx.stream);
  device.read(all, values.data());
  return values;
}

}  // namespace tessera
