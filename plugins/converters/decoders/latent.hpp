#pragma once
#include <optional>
#include <string>
#include <vector>

#include "family_config.hpp"

namespace tessera {

/// Keys below "model.block.attention." of layer `latent_attention`; `rotary` has those of rotary
/// positions.
Settings latent_to_ours(FamilyConfig& config, const Settings& rotary);

/// The inverse: sets keys of config.json. `block`: the table of the block with the attention.
void latent_to_theirs(const ModelKeys& ours,
                      const std::string& block,
                      const Family& family,
                      Settings& theirs);

/// The attention's parameters of a layer.
std::vector<ConvertedTensor> latent_tensors(FamilyConfig& config, i64 layer);

}  // namespace tessera
