#pragma once
#include <optional>
#include <string>
#include <vector>

#include "family_config.hpp"

namespace tessera {

/// Keys below "model." of layers that attend to the last positions only: none where no layer does,
/// or where the window is as large as the model's positions; two kinds of blocks where some do.
/// Throws ConfigError for keys that contradict each other.
Settings windows_to_ours(FamilyConfig& config);

/// The inverse: sets keys of config.json. `blocks`: the table of each layer's block.
void windows_to_theirs(const ModelKeys& ours,
                       const std::vector<std::string>& blocks,
                       const Family& family,
                       Settings& theirs);

}  // namespace tessera
