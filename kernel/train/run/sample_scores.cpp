#include "kernel/train/run/sample_scores.hpp"

#include <algorithm>
#include <map>

#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

SampleScorer::SampleScorer(PlacedModel& model, const Dataset& dataset)
    : model_(model),
      microbatches_(static_cast<int>(model.setup().microbatches)),
      samples_(microbatches_ * model.setup().batch.micro * model.rank().mesh->size(Axis::data)),
      losses_(model.parts(), *model.rank().device),
      inputs_(dataset,
              model.parts(),
              model.setup().batch,
              *model.rank().mesh,
              *model.rank().device,
              microbatches_),
      executor_(model.chunks(), model.parts(), nullptr, *model.rank().mesh, model.boundaries()),
      plan_(model.plan(microbatches_, false)) {}

SampleScores SampleScorer::score(SampleSet set, i64 first, i64 count) {
  SampleScores scores;
  for (i64 begin = 0; begin < count; begin += samples_) {
    const Round round = run(set, first, count, begin);
    for (i64 i = 0; i < std::min(samples_, count - begin); ++i) {
      const auto row = round.values.begin() + i * round.width;
      scores.emplace_back(row, row + round.width);
    }
  }
  return scores;
}

// Values of a sample, which ranks without the head do not know.
i64 SampleScorer::width_of_all(Context& cx, i64 own) const {
  const Mesh& mesh = *model_.rank().mesh;
  Device& device = *model_.rank().device;
  i64 width = own;
  if (mesh.world_size() > 1) {
    const Tensor most = cx.empty({1}, DType::i64);
    device.write(most, &width);
    mesh.world().all_reduce(*cx.stream, most, ReduceOp::max, "values of a sample").wait(*cx.stream);
    device.read(most, &width);
  }
  require(width > 0, "the model's head leaves no scores of samples");
  return width;
}

SampleScorer::Round SampleScorer::run(SampleSet set, i64 first, i64 count, i64 begin) {
  const Mesh& mesh = *model_.rank().mesh;
  Device& device = *model_.rank().device;
  const i64 micro = model_.setup().batch.micro;
  Context cx = model_.rank().context();
  model_.prepared().prepare_all(cx);
  cx.sink = &losses_;
  const int from = static_cast<int>(begin / samples_) * microbatches_;
  const auto request = [&](int microbatch) {
    return StepInputs::Request{set, first, count, microbatch};
  };
  const StepInputs::Request next = request(from + microbatches_);
  inputs_.upload(cx, request(from), begin + samples_ < count ? &next : nullptr, 0);
  const bool has_all = mesh.first(Axis::tensor) && mesh.first(Axis::context);
  std::map<i64, std::vector<float>> found;  // by the first sample of a microbatch
  const Slot slot{model_.parts().slot(Model::kScoresSlot)};
  executor_.evaluate(
      cx,
      plan_,
      [&](Context&, int microbatch, Bundle& bundle) { inputs_.load(microbatch, bundle); },
      [&](Context& c, int microbatch, Bundle& bundle) {
        const Tensor scores = bundle[slot];
        if (!scores.defined() || !has_all) return;
        const Tensor wide = c.empty(scores.shape(), DType::fp32);
        ops::run(c, CopyArgs{scores.arg(), wide.arg()});
        const i64 sample = (microbatch * mesh.size(Axis::data) + mesh.coordinate(Axis::data));
        std::vector<float>& values = found[sample * micro];
        values.resize(static_cast<std::size_t>(wide.elements()));
        device.read(wide, values.data());
      });
  Round round;
  const i64 own = found.empty() ? 0 : static_cast<i64>(found.begin()->second.size()) / micro;
  round.width = width_of_all(cx, own);
  round.values.resize(static_cast<std::size_t>(samples_ * round.width), 0);
  for (const auto& [sample, values] : found) {
    std::ranges::copy(values, round.values.begin() + sample * round.width);
  }
  if (mesh.world_size() == 1) return round;
  const Tensor all = cx.empty({static_cast<i64>(round.values.size())}, DType::fp32);
  device.write(all, round.values.data());
  mesh.world().all_reduce(*cx.stream, all, ReduceOp::sum, "scores").wait(*cx.stream);
  device.read(all, round.values.data());
  return round;
}

SampleScores score_all(PlacedModel& model, const Dataset& dataset) {
  return SampleScorer(model, dataset).score(SampleSet::test, 0, dataset.size(SampleSet::test));
}

}  // namespace tessera
