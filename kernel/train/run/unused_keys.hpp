#pragma once
#include "kernel/train/setup/problem_list.hpp"
#include "kernel/train/setup/run_setup.hpp"

namespace tessera {

/// Adds a problem for each key that was set and that the others leave without effect. Switches that
/// turn off what a whole table says (checkpoint.save = false) are no such case.
void check_unused_keys(const RunSetup& setup, ProblemList& problems);

}  // namespace tessera
