#include "kernel/schedule/recomputed_range.hpp"

namespace tessera {

bool in_one_recomputed_range(const Plan& plan, int a) {
  if (a < 0 || a + 1 >= static_cast<int>(plan.phases.size())) return false;
  const PhaseInfo& x = plan.phases[static_cast<std::size_t>(a)];
  const PhaseInfo& y = plan.phases[static_cast<std::size_t>(a) + 1];
  return x.recompute && y.recompute && x.chunk == y.chunk && x.layer == y.layer;
}

}  // namespace tessera
