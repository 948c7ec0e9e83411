#pragma once
#include "tessera/plan.hpp"

namespace tessera {

/// Do phases `a` and `a` + 1 of the plan belong to one recomputed segment: of one layer, and both
/// dropped? Phases beyond either end belong to none.
bool in_one_segment(const Plan& plan, int a);

inline bool starts_segment(const Plan& plan, int phase) { return !in_one_segment(plan, phase - 1); }
inline bool ends_segment(const Plan& plan, int phase) { return !in_one_segment(plan, phase); }

}  // namespace tessera
