#include "base.hpp"

#include <algorithm>

namespace tessera {

std::vector<i64> ExpertDispatcher::assumed(const Context& cx,
                                           i64 choices,
                                           const Routing& routing,
                                           i64 ranks) const {
  // Experts that choose are equally loaded.
  const double imbalance = routing.by_expert ? 1 : cx.device->assumed_imbalance();
  std::vector<i64> counts = ranks_->balanced(choices, imbalance);
  if (routing.limit == 0) return counts;
  for (i64& count : counts) count = std::min(count, routing.limit * ranks);
  return counts;
}

}  // namespace tessera
