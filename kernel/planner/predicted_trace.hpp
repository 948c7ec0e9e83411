#pragma once
#include <string>

#include "kernel/planner/predict.hpp"

namespace tessera {

/// The predicted step as a file of the form that a run's trace has: one process for each pipeline
/// rank, which is called by the first rank of its class. Seconds count from the step's start.
std::string predicted_trace(const Prediction& prediction);

}  // namespace tessera
