#pragma once
#include <span>
#include <vector>

#include "tessera/build.hpp"

namespace tessera {

/// Metrics of how the rows of a layer spread over its experts, from the choices of the router over
/// the global batch. Which of them a capacity drops does not change the loads.
class ExpertLoad {
 public:
  /// `drops`: an expert may refuse choices.
  ExpertLoad(i64 experts, bool drops, BuildContext& build)
      : counts_(build.counts({.size = experts, .sets = drops ? 2 : 1, .metrics = metrics(drops)})) {
  }

  /// i32 [n, k]: experts of choices.
  void chosen(Context& cx, const Tensor& experts) const { cx.count(counts_, kChosen, experts); }
  void kept(Context& cx, const Tensor& experts) const { cx.count(counts_, kKept, experts); }

 private:
  static constexpr i64 kChosen = 0, kKept = 1;
  static std::function<std::vector<LayerMetric>(std::span<const double>)> metrics(bool drops);

  Counts counts_;
};

}  // namespace tessera
