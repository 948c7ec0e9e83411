#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "kernel/checkpoint/index.hpp"
#include "kernel/config/resolve.hpp"
#include "kernel/plugin/host.hpp"

namespace tessera {

/// The configuration that a checkpoint was saved with, then `command`, then `sets`. A checkpoint
/// brings no code: `plugin_path()` has the folders of `sets` alone.
Config stored_config(const std::filesystem::path& folder,
                     const CheckpointIndex& index,
                     const std::vector<std::string>& sets = {},
                     const ConfigText& command = {});

/// Resolves it with the plugins that the user has asked for, against the tensors of the checkpoint
/// (`Resolved::stored`). Where it names other folders of plugins, a warning lists them; where it
/// does not resolve without them, the ConfigError does, and says how to allow them.
Resolved resolve_stored(const std::filesystem::path& folder,
                        const CheckpointIndex& index,
                        const Config& config,
                        const PluginHost& plugins);

}  // namespace tessera
