#pragma once
#include <chrono>

#include "tessera/device/communicator.hpp"
#include "tessera/plan.hpp"

namespace tessera {

/// Ranks of the same pipeline coordinate compute, communicate and reduce in the same order, or
/// their groups never meet. Throws ConfigError on each rank whose plan is not that of the first of
/// them, with the first action that differs: a schedule that is not a pure function of its shape,
/// or another build. Called by all ranks; no communication but through the store.
void agree_plans(const Plan& plan,
                 const Mesh& mesh,
                 Store& store,
                 std::chrono::milliseconds timeout);

}  // namespace tessera
