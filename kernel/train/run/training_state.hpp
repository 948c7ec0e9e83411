#pragma once
#include <string>
#include <vector>

#include "kernel/checkpoint/checkpoints.hpp"
#include "kernel/train/execution/train_step.hpp"

namespace tessera {

/// Main parameters by name: all of this rank's, or of each what its shard has. And saved buffers.
std::vector<CheckpointTensor> parameter_tensors(const PlacedModel& model);
/// The names of all that the whole run has of these.
std::vector<std::string> parameter_names(const PlacedModel& model);

/// What a checkpoint holds of one rank's training, and how training continues from one.
class TrainingState {
 public:
  /// Both outlive it.
  TrainingState(PlacedModel& model, TrainStep& step) : model_(model), step_(step) {}

  /// Main parameters, saved buffers and the optimizer's state:
  /// "layers.0.mlp.up.weight/first_moment".
  std::vector<CheckpointTensor> tensors() const;
  /// Names of the run's tensors, as read_tensors() takes them: parameters and saved buffers, those
  /// of other pipeline stages too, and the state that the rule keeps for the parameters of this
  /// rank. What state the others have, their ranks know.
  std::vector<std::string> names() const;
  /// Both without the optimizer's state: what a new run begins with.
  std::vector<CheckpointTensor> parameters() const { return parameter_tensors(model_); }
  std::vector<std::string> parameter_names() const { return tessera::parameter_names(model_); }
  /// Where training stands. Waits for the device.
  CheckpointInfo info(const std::string& config_text) const;
  /// Continues after a checkpoint whose tensors were loaded.
  void continue_from(const Checkpoints::Loaded& loaded);
  /// Begins a new run with parameters that were loaded.
  void begin_with_loaded();

 private:
  PlacedModel& model_;
  TrainStep& step_;
};

}  // namespace tessera
