#pragma once
#include <string>
#include <vector>

#include "family_config.hpp"

namespace tessera {

/// Keys below "model." of all MLPs, and of the kinds of blocks where there are several.
Settings mlps_to_ours(FamilyConfig& config);

/// The inverse: sets keys of config.json. `blocks`: the table of each layer's block.
void mlps_to_theirs(const ModelKeys& ours,
                    const std::vector<std::string>& blocks,
                    const Family& family,
                    Settings& theirs);

}  // namespace tessera
