#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/cli/joined_rank.hpp"
#include "kernel/config/config.hpp"

namespace tessera {

/// The model of a checkpoint, opened for a command that computes with it and does not train it.
struct StoredModel {
  std::filesystem::path folder;  ///< of the checkpoint
  Opened opened;

  /// `checkpoint`: a run's folder, its checkpoints' or one of them. `path`: more plugin folders.
  /// `command`: what the command sets, below the user's `sets`.
  StoredModel(const std::string& checkpoint,
              const std::vector<std::string>& path,
              const std::vector<std::string>& sets,
              const ConfigText& command);
  RunSetup setup(i64 world, DataUse use) const;
};

/// How a command lays out a model that nobody trains, whatever it was trained on: on its own ranks,
/// without graphs, in the default schedule. The user's --set goes before it.
struct UntrainedLayout {
  i64 ranks = 1, tensor = 1;
  std::string data = "1";      ///< parallel.data, as TOML
  i64 samples = 1, micro = 1;  ///< of a batch, and of a microbatch
  std::string keys() const;    ///< as TOML
};

/// A command over a stored model, on this rank alone or on several that it starts.
struct StoredCommand {
  std::string_view doing;  ///< "generate"
  i64 ranks = 1;
  DataUse use = DataUse::none;
  std::string_view changed = {};  ///< see check_loadable
  /// Called once on every rank, and before ranks start.
  std::function<StoredModel()> open = {};
  /// What has to be the same on all ranks beside configuration and checkpoint, if there is more.
  std::function<std::vector<Fact>()> facts = {};
  /// Where set, called before ranks start; true: nothing is left to do.
  std::function<bool(const StoredModel&, const RunSetup&)> before = {};
  std::function<void(const StoredModel&, const RunSetup&, const RankIdentity&, const RankFailed&)>
      work = {};
};

/// Returns the exit code.
int run_stored(const StoredCommand& command);

}  // namespace tessera
