#pragma once
#include <string>
#include <vector>

#include "kernel/checkpoint/checkpoints.hpp"
#include "kernel/train/session.hpp"

namespace tessera {

// What of a session a checkpoint holds, and how a session continues from one.

/// Main parameters by name.
std::vector<CheckpointTensor> parameter_tensors(Session& session);
/// The same and the optimizer's state: "layers.0.mlp.up.weight/first_moment".
std::vector<CheckpointTensor> training_tensors(Session& session);
/// Names of all such tensors of the run, those of other pipeline stages too.
std::vector<std::string> training_names(Session& session);
/// Where the session stands. Waits for the device.
CheckpointInfo training_info(const Session& session, const std::string& config_text);
/// Continues behind a checkpoint whose tensors were loaded. Throws ConfigError when it was made
/// with another seed, data, batch size, or is beyond the end of this run.
void continue_from(const Checkpoints::Loaded& loaded, Session& session);

}  // namespace tessera
