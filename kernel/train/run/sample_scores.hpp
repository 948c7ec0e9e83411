#pragma once
#include "kernel/train/execution/row_sums.hpp"
#include "kernel/train/run/sample_rounds.hpp"
#include "tessera/evaluation.hpp"

namespace tessera {

/// Runs samples through a placed model and takes what its head leaves of each
/// (Model::kScoresSlot), under any layout: data-parallel ranks share out the samples, and all ranks
/// learn all scores.
class SampleScorer {
 public:
  /// Both outlive it.
  SampleScorer(PlacedModel& model, const Dataset& dataset);

  /// Of ordinals [first, first + count) of a set, in order. All ranks call it. Throws Error where
  /// the model's head leaves none.
  SampleScores score(SampleSet set, i64 first, i64 count);

 private:
  /// Of the round that begins with sample `begin`: [samples · width], and the width.
  struct Round {
    std::vector<float> values;
    i64 width = 0;
  };
  Round run(SampleSet set, i64 first, i64 count, i64 begin);
  i64 width_of_all(Context& cx, i64 own) const;

  PlacedModel& model_;
  RowSums losses_;  // nobody reads them
  SampleRounds rounds_;
};

}  // namespace tessera
