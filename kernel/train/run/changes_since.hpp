#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kernel/checkpoint/index.hpp"
#include "kernel/config/dump.hpp"
#include "kernel/train/setup/run_setup.hpp"

namespace tessera {

/// What differs between the configuration of a checkpoint and that of this run.
struct Changes {
  std::vector<Difference> keys;
  std::optional<i64> steps;  ///< run.steps of the checkpoint
  std::string unknown;       ///< why nothing is known: this version does not take its configuration
};
Changes changes_since(const CheckpointInfo& info, const RunSetup& setup);

/// "changed since then:" and a line for each key, indented; or that none has, or why it is not
/// known.
std::string told(const Changes& since);
/// "\n  " before each line; of many the first ones and how many more.
std::string indented(const std::vector<std::string>& lines);

/// Warns of values and rates that nobody has changed and that differ because run.steps does: the
/// end of a decay.
void warn_of_length(const Changes& since, const RunSetup& setup);

}  // namespace tessera
