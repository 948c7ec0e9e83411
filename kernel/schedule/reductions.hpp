#pragma once
#include "tessera/plan.hpp"

namespace tessera {

/// Inserts one Reduce for each of plan.bucket_layers, right after the action that adds the last
/// gradient to it (and the exchange that sends that action's result on: a neighbour waits for it).
void add_reductions(Plan& plan);

/// Appends the Step of a training plan, after every reduction and every exchange.
void add_step(Plan& plan);

}  // namespace tessera
