#include "label_loss.hpp"

#include <utility>

#include "tessera/ops.hpp"

namespace tessera {

LabelLoss::LabelLoss(const LabelLossSpec& spec, BuildContext& build) {
  const std::string mask = std::string(spec.label) + "_mask";
  label_ = build.slot(spec.label);
  mask_ = build.slot(mask);
  build.bound(spec.label, spec.classes, spec.key);
  loss_ = build.loss({.name = spec.loss, .mask = mask, .partial = spec.partial});
  accuracy_ = build.metric({.name = spec.accuracy, .partial = spec.partial, .of_validation = true});
}

void LabelLoss::add(Context& cx, const Bundle& bundle, Tensor logits, double share) const {
  ops::add_cross_entropy(
      cx, loss_, std::move(logits), bundle[label_], bundle[mask_], share, accuracy_);
}

}  // namespace tessera
