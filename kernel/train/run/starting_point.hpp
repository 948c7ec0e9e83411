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
  /// It was in the folder where this run saves, so the files there are of the same run.
  bool same_run = false;
  std::optional<CheckpointInfo> info = {};  ///< of the checkpoint
};

/// What was changed in the configuration, given that of a checkpoint as text: a line each.
using ConfigChanges = std::function<std::vector<std::string>(const std::string& before)>;

/// Does what [checkpoint] says, on all ranks, and tells on rank 0 what it did: which keys changed
/// since the checkpoint; which parameters were taken from another run.
StartingPoint find_starting_point(const CheckpointSection& section,
                                  Checkpoints& checkpoints,
                                  TrainingState& state,
                                  bool tell,
                                  const ConfigChanges& changes);

}  // namespace tessera
