#include "kernel/train/run/sample_scores.hpp"

#include <algorithm>
#include <map>

#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

SampleScorer::SampleScorer(PlacedModel& model, const Dataset& dataset)
    : model_(model), losses_(model.parts(), *model.rank().device), rounds_(model, dataset) {}

SampleScores SampleScorer::score(SampleSet set, i64 first, i64 count) {
  SampleScores scores;
  for (i64 begin = 0; begin < count; begin += rounds_.samples()) {
    const Round round = run(set, first, count, begin);
    for (i64 i = 0; i < std::min(rounds_.samples(), count - begin); ++i) {
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
  const bool has_all = mesh.first(Axis::tensor) && mesh.first(Axis::context);
  Context cx = rounds_.context(losses_);
  std::map<i64, std::vector<float>> found;  // by the first sample of a microbatch
  const Slot slot{model_.parts().slot(Model::kScoresSlot)};
  const auto done = [&](Context& c, int microbatch, Bundle& bundle) {
    const Tensor scores = bundle[slot];
    if (!scores.defined() || !has_all) return;
    const Tensor wide = c.empty(scores.shape(), DType::fp32);
    ops::run(c, CopyArgs{scores.arg(), wide.arg()});
    std::vector<float>& values = found[rounds_.first_sample(microbatch)];
    values.resize(static_cast<std::size_t>(wide.elements()));
    model_.rank().device->read(wide, values.data());
  };
  rounds_.run(
      cx, set, first, count, begin, [](Context&, Bundle&) {}, done);
  const auto elements = found.empty() ? 0 : static_cast<i64>(found.begin()->second.size());
  Round round;
  round.width = width_of_all(cx, elements / model_.setup().batch.micro);
  round.values.resize(static_cast<std::size_t>(rounds_.samples() * round.width), 0);
  for (const auto& [sample, values] : found) {
    std::ranges::copy(values, round.values.begin() + sample * round.width);
  }
  rounds_.sum(cx, round.values);
  return round;
}

}  // namespace tessera
