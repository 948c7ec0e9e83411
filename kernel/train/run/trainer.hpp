#pragma once
#include "kernel/train/run/trainer_arguments.hpp"

namespace tessera {

/// Trains as one rank until run.steps or until any rank is asked to stop: steps, validation,
/// checkpoints, and on rank 0 the observers. Returns whether all steps are done, the same on all
/// ranks.
bool train_rank(const TrainerArguments& arguments);

}  // namespace tessera
