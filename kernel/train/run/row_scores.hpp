#pragma once
#include <vector>

#include "kernel/train/execution/row_sums.hpp"
#include "kernel/train/run/sample_rounds.hpp"
#include "kernel/train/run/scored_rows.hpp"

namespace tessera {

/// What a placed model's main loss knows of each row of samples, under any layout: data-parallel
/// ranks share out the samples, context-parallel ones their rows, and all learn all values.
class RowScores {
 public:
  /// Both outlive it.
  RowScores(PlacedModel& model, const Dataset& dataset);

  /// Samples of a round, of all ranks together.
  i64 round() const { return rounds_.samples(); }
  /// Calls take(sample, row, sum, target) for each row of ordinals [first, first + count) of a set:
  /// see RowSums; of rows without a loss these or zeros. All ranks call it.
  template <class Take>
  void for_each_row(SampleSet set, i64 first, i64 count, Take&& take) {
    for (i64 begin = 0; begin < count; begin += round()) {
      const std::vector<double> values = run(set, first, count, begin);
      const i64 samples = begin + round() < count ? round() : count - begin;
      for (i64 i = 0; i < samples * length_; ++i) {
        const auto at = static_cast<std::size_t>(2 * i);
        take(begin + i / length_, i % length_, values[at], values[at + 1]);
      }
    }
  }

 private:
  /// Two values for each row of each sample of the round that begins with sample `begin`.
  std::vector<double> run(SampleSet set, i64 first, i64 count, i64 begin);

  PlacedModel& model_;
  i64 length_;
  RowSums sums_;
  SampleRounds rounds_;
  ScoredRows scored_;
};

}  // namespace tessera
