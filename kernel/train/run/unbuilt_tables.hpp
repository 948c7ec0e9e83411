#pragma once
#include "kernel/train/setup/problem_list.hpp"
#include "kernel/train/setup/run_setup.hpp"

namespace tessera {

/// Adds a problem for each slot in whose table something is written and from which no component was
/// made, neither by the table nor by a variant of it. Call once all ranks have built what they
/// hold.
void check_unbuilt_tables(const RunSetup& setup, ProblemList& problems);

}  // namespace tessera
