#pragma once
#include "tessera/plan.hpp"

namespace tessera {

/// Inserts one Reduce for each of plan.bucket_layers, right behind the action that adds the last
/// gradient to it (and the exchange that sends that action's result on: a neighbour waits for it).
void add_reductions(Plan& plan);

/// The end of a training plan: behind every reduction and the last exchange, hence all of them.
void add_step(Plan& plan);

}  // namespace tessera
