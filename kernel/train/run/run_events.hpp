#pragma once
#include "kernel/train/run/run_history.hpp"
#include "kernel/train/run/starting_point.hpp"
#include "kernel/train/run/training.hpp"
#include "tessera/observer.hpp"

namespace tessera {

/// What observers are told of a run that goes on from where `step` is. The picture of the schedule,
/// the model's FLOPs and the graphs' launches are made on rank 0 only, whose observers there are.
RunStart run_start(const Training& training, const StartingPoint& start);

/// What they are told of one step.
StepEnd step_end(const RunSetup& setup, i64 step, const StepLosses::Row& row);

/// What the run's history keeps of this start.
RunPart run_part(const Training& training, const RunStart& event, const StartingPoint& start);

}  // namespace tessera
