#pragma once
#include "kernel/train/execution/train_step.hpp"
#include "kernel/train/run/run_history.hpp"
#include "kernel/train/run/trainer.hpp"
#include "kernel/train/setup/placed_model.hpp"
#include "tessera/observer.hpp"

namespace tessera {

/// What observers are told of a run that goes on from where `step` is. The picture of the schedule,
/// the model's FLOPs and the graphs' launches are made on rank 0 only, whose observers there are.
RunStart run_start(const TrainerArguments& arguments,
                   const Rank& rank,
                   const PlacedModel& model,
                   const StartingPoint& start,
                   const TrainStep& step);

/// What they are told of one step.
StepEnd step_end(const RunSetup& setup, i64 step, const StepLosses::Row& row);

/// What the run's history keeps of this start.
RunPart run_part(const TrainerArguments& arguments,
                 const RunStart& event,
                 const StartingPoint& start);

}  // namespace tessera
