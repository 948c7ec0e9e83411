#pragma once
#include <string_view>

#include "kernel/checkpoint/checkpoints.hpp"
#include "kernel/train/run/changes_since.hpp"
#include "kernel/train/run/meaning.hpp"
#include "kernel/train/setup/run_setup.hpp"

namespace tessera {

/// A checkpoint that a run would go on from, by its index alone: no tensor is read.
struct GoingOn {
  Checkpoints::Loaded from;
  Changes since;
  Meaning meaning;
  bool same_run = false;  ///< it is of the run whose files are in run.out
  bool over = false;      ///< it has all steps: nothing is left to train
};
GoingOn going_on(const Checkpoints::Loaded& from, const RunSetup& setup);

/// Throws ConfigError where the run may not: it is finished, and a key that shapes the loss curve
/// has another value; or it was made with another structure, tokenizer, seed, data or batch size,
/// or is beyond the end of this run. `setup` has a tokenizer and a dataset.
void require_may_go_on(const GoingOn& run, const RunSetup& setup);

/// Throws ConfigError for tensors that do not fit, which `misfit` lists: with the keys that changed
/// and the way out before it.
[[noreturn]] void fail_misfit(const GoingOn& run, std::string_view misfit);

/// Whether `path` is `folder` or below it.
bool within(const std::filesystem::path& path, const std::filesystem::path& folder);

}  // namespace tessera
