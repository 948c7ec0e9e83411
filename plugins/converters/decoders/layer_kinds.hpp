#pragma once
#include <string>
#include <vector>

#include "families.hpp"

namespace tessera {

/// The table of a kind of blocks: "model.blocks.dense".
std::string table_of(const std::string& kind);

/// "dense moe*3", where `layers` says which layers are of the kind `in`; the others are `out`.
std::string pattern_of(const std::vector<bool>& layers, const char* in, const char* out);

/// The table of each layer's block, "model.block" or "model.blocks.dense". Blocks differ in what
/// layers of the family may differ in, which is left to the caller, and in nothing else. Throws
/// ConfigError otherwise.
std::vector<std::string> blocks_of(const Settings& all,
                                   const ModelKeys& ours,
                                   const Family& family);

}  // namespace tessera
