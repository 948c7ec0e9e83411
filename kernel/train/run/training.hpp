#pragma once
#include "kernel/comm/control_plane/control_plane.hpp"
#include "kernel/train/execution/train_step.hpp"
#include "kernel/train/run/trainer_arguments.hpp"

namespace tessera {

/// One rank's training, as the parts of the trainer share it. What it refers to outlives them.
struct Training {
  const TrainerArguments& arguments;
  PlacedModel& model;
  TrainStep& step;
  const ControlPlane& plane;

  const RunSetup& setup() const { return *arguments.setup; }
  const RunConfig& config() const { return *arguments.setup->config; }
  bool root() const { return model.rank().mesh->rank() == 0; }
  i64 steps() const { return step.state().steps(); }
};

}  // namespace tessera
