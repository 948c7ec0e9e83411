#pragma once
#include "tessera/plan.hpp"

namespace tessera {

/// Plays one rank's plan before anything starts and throws Error naming the first offending action:
/// each phase of each microbatch forward once and backward once (B, or Bi then Bw), dependencies
/// before their users, phases in order, live microbatches within the declared bound, every bucket
/// reduced once after its last gradient, one Step at the end.
void verify(const Plan& plan);

}  // namespace tessera
