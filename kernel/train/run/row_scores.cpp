#include "kernel/train/run/row_scores.hpp"

#include <algorithm>

namespace tessera {

RowScores::RowScores(PlacedModel& model, const Dataset& dataset)
    : model_(model),
      length_(model.setup().sequence_length),
      sums_(model.parts(), *model.rank().device),
      rounds_(model, dataset),
      scored_(model.parts(), rounds_.reader(), *model.rank().device) {}

std::vector<double> RowScores::run(SampleSet set, i64 first, i64 count, i64 begin) {
  const i64 local = model_.setup().batch.sequence;
  const bool first_of_tensor = model_.rank().mesh->first(Axis::tensor);
  Context cx = rounds_.context(sums_);
  std::vector<double> values(static_cast<std::size_t>(round() * length_ * 2), 0);
  const auto loaded = [&](Context& c, Bundle& bundle) { scored_.choose(c, bundle); };
  const auto done = [&](Context& c, int microbatch, Bundle& bundle) {
    const std::vector<i32> rows = scored_.of(bundle);
    const std::vector<double> own = sums_.take(c, static_cast<i64>(rows.size()));
    if (!first_of_tensor) return;  // the others have the same
    const i64 sample = rounds_.first_sample(microbatch);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] < 0) continue;
      const i64 at = rounds_.reader().position(rows[i] % local);
      const i64 to = ((sample + rows[i] / local) * length_ + at) * 2;
      std::copy_n(own.begin() + static_cast<i64>(2 * i), 2, values.begin() + to);
    }
  };
  rounds_.run(cx, set, first, count, begin, loaded, done);
  rounds_.sum(cx, values);
  return values;
}

}  // namespace tessera
