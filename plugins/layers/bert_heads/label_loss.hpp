#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tessera/build.hpp"

namespace tessera {

/// What a head compares with the labels of its samples.
struct LabelLossSpec {
  std::string_view loss, accuracy;  ///< names of the term and of its metric
  std::string_view label;           ///< the input of labels, i64; "_mask" after it names its mask
  i64 classes = 0;
  std::string_view key;       ///< of the head, which sets how many classes there are
  std::vector<Axis> partial;  ///< as LossSpec
};

/// A mean cross entropy over samples against their labels, and the share that is right.
class LabelLoss {
 public:
  LabelLoss(const LabelLossSpec& spec, BuildContext& build);
  /// Adds that of logits [labels, classes], which are whole on this rank. `share`: 0 where another
  /// rank's loss is the one that counts.
  void add(Context& cx, const Bundle& bundle, Tensor logits, double share) const;

 private:
  Slot label_, mask_;
  LossTerm loss_;
  Metric accuracy_;
};

}  // namespace tessera
