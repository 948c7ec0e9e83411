#pragma once
#include <string>
#include <vector>

#include "family_config.hpp"

namespace tessera {

/// The layers of a family with experts, as a config.json has them.
struct FamilyExperts {
  /// Throws ConfigError where no layer has experts: such a model is of another family.
  explicit FamilyExperts(FamilyConfig& config);

  i64 count = 0, top_k = 0, ffn = 0;  ///< ffn: inner features of an expert
  std::vector<bool> layers;           ///< does each layer have experts? The others have a dense MLP
  bool everywhere() const;
};

/// Keys below "model." of all MLPs, and of the kinds of blocks where there are several.
Settings mlps_to_ours(FamilyConfig& config);

/// The table of each layer's block, "model.block" or "model.blocks.dense". Blocks differ in their
/// MLPs at most, and in a family without experts in nothing. Throws ConfigError otherwise.
std::vector<std::string> blocks_of(const Settings& all,
                                   const ModelKeys& ours,
                                   const Family& family);

/// The inverse of mlps_to_ours(): sets keys of config.json. `blocks`: of each layer.
void mlps_to_theirs(const ModelKeys& ours,
                    const std::vector<std::string>& blocks,
                    const Family& family,
                    Settings& theirs);

}  // namespace tessera
