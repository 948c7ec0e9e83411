#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kernel/checkpoint/index.hpp"
#include "kernel/checkpoint/rank_load.hpp"
#include "kernel/train/run/going_on.hpp"
#include "kernel/train/run/training_state.hpp"

namespace tessera {

/// What is wrong with a run's start before its ranks are there to find it: the checkpoints that it
/// names, those in its folder, and whether training may go on from them, as find_starting_point()
/// judges it. Reads indexes and no tensor.
class StartCheck {
 public:
  /// It outlives this.
  explicit StartCheck(const RunSetup& setup) : setup_(setup) {}
  /// Checkpoints that are asked for by name are there, and none is in the way.
  void require_found() const;
  /// Training may go on from what is there. `setup` has a tokenizer and a dataset.
  void require_may_go_on();
  /// What one rank holds. Ranks that hold different parts of the model are all added.
  void add(const TrainingState& state);
  /// What was added fits the checkpoint that training goes on from, or begins with. Then it warns
  /// of what the checkpoint does not tell, and of what follows the length of the run.
  void require_fit() const;

 private:
  void require_initial() const;
  const RunSetup& setup_;
  std::optional<GoingOn> run_;  // none: it begins anew
  CheckpointIndex index_;       // of its checkpoint
  Misfit misfit_;
  std::vector<std::string> parameters_;  // of the whole run
};

}  // namespace tessera
