#pragma once
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

/// The inverse of FamilyExperts::layers: sets keys of config.json.
void expert_layers_to_theirs(const std::vector<bool>& with_experts,
                             const Family& family,
                             Settings& theirs);

/// Keys below an MLP's table that say how a token chooses its experts, and which all tokens share.
Settings routing_to_ours(FamilyConfig& config, const FamilyExperts& experts);

/// The inverse: sets keys of config.json. `mlp`: the table, "model.block.mlp.".
void routing_to_theirs(const ModelKeys& ours,
                       const std::string& mlp,
                       const Family& family,
                       Settings& theirs);

}  // namespace tessera
