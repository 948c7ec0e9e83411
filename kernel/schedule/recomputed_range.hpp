#pragma once
#include "tessera/plan.hpp"

namespace tessera {

/// Do phases `a` and `a` + 1 of the plan belong to one recomputed range: of one layer, and both
/// dropped? Phases beyond either end belong to none.
bool in_one_recomputed_range(const Plan& plan, int a);

inline bool starts_recomputed_range(const Plan& plan, int phase) {
  return !in_one_recomputed_range(plan, phase - 1);
}
inline bool ends_recomputed_range(const Plan& plan, int phase) {
  return !in_one_recomputed_range(plan, phase);
}

}  // namespace tessera
