#pragma once
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
  bool over = false;                        ///< it has all steps: nothing is left to train
  std::vector<std::string> changed = {};    ///< keys, a line each: "lr.peak: 0.002, now 0.001"
};

/// Throws ConfigError where files of this run would mix with those of an earlier one that it does
/// not go on from: its checkpoints, or those beside its other files.
void require_unmixed(const RunConfig& config);

/// Whether a run has nothing to write: the newest checkpoint in its folder has all its steps, and
/// its folders cannot be written to, as on a disk that is read-only. No other run writes there.
bool only_looks(const RunConfig& config);

/// Does what [checkpoint] says, on all ranks, and tells on rank 0 what it did: which keys changed
/// since the checkpoint; which parameters were taken from another run. Throws ConfigError where
/// training may not go on from it (going_on.hpp).
StartingPoint find_starting_point(const RunSetup& setup,
                                  Checkpoints& checkpoints,
                                  TrainingState& state,
                                  bool root);

}  // namespace tessera
