#pragma once
#include <string>
#include <vector>

#include "family_config.hpp"

namespace tessera {

/// Keys below "model.block.attention." but for windows.
Settings attention_to_ours(FamilyConfig& config);

/// The inverse: sets keys of config.json. `block`: the table of the block with the attention.
void attention_to_theirs(const ModelKeys& ours,
                         const std::string& block,
                         const Family& family,
                         Settings& theirs);

/// The attention's parameters of a layer.
std::vector<ConvertedTensor> attention_tensors(FamilyConfig& config, i64 layer);

}  // namespace tessera
