#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernel/train/run/training_state.hpp"

namespace tessera {

/// Where a training begins: at a checkpoint, with the parameters of one, or with initial values.
struct StartingPoint {
  std::string resumed_from;  ///< the checkpoint's folder; empty: the run is new
  /// It is of the run whose files are in run.out.
  bool same_run = false;
  std::optional<CheckpointInfo> info = {};  ///< of the checkpoint
};

/// What was changed in the configuration, given that of a checkpoint as text: a line each.
using ConfigChanges = std::function<std::vector<std::string>(const std::string& before)>;

/// Throws ConfigError where files of this run would mix with those of an earlier one that it does
/// not go on from: its checkpoints, or those beside its other files.
void require_unmixed(const RunConfig& config);

/// Does what [checkpoint] says, on all ranks, and tells on rank 0 what it did: which keys changed
/// since the checkpoint; which parameters were taken from another run.
StartingPoint find_starting_point(const RunConfig& config,
                                  Checkpoints& checkpoints,
                                  TrainingState& state,
                                  bool tell,
                                  const ConfigChanges& changes);

}  // namespace tessera
