#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "kernel/checkpoint/index.hpp"

namespace tessera {

/// What a new run takes from a checkpoint (checkpoint.init_from).
struct InitialParameters {
  std::filesystem::path folder;
  std::vector<std::string> taken, fresh;  ///< names of this run: those found there, the others
  std::vector<std::string> left_out;      ///< parameters of the checkpoint that are not in the run
};

/// Sorts the names of the run's parameters and the checkpoint's. What matches a pattern of `skip`
/// is not taken. ConfigError when nothing can be taken or a pattern matches nothing.
InitialParameters match_initial(const std::filesystem::path& folder,
                                const CheckpointIndex& index,
                                const std::vector<std::string>& names,
                                const std::vector<std::string>& skip);

}  // namespace tessera
