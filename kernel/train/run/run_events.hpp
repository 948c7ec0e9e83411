#pragma once
#include "kernel/train/execution/step_losses.hpp"
#include "kernel/train/run/trainer.hpp"
#include "kernel/train/setup/placed_model.hpp"
#include "tessera/observer.hpp"

namespace tessera {

/// What observers are told of a run that goes on after `steps` steps. The picture of the schedule
/// and the model's FLOPs are made on rank 0 only, whose observers there are.
RunStart run_start(const TrainerArguments& arguments,
                   const Rank& rank,
                   const PlacedModel& model,
                   const StartingPoint& start,
                   i64 steps);

/// What they are told of one step.
StepEnd step_end(const RunSetup& setup, i64 step, const StepLosses::Row& row);

}  // namespace tessera
