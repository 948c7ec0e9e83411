#pragma once
#include <map>
#include <string>
#include <vector>

#include "tessera/build.hpp"

namespace tessera {

using BlockKinds = std::map<std::string, Component<Layer>>;

/// The component of each of a model's `layers` blocks: `block` everywhere without a pattern, else
/// the kinds that the pattern names. Throws ConfigError that names model.pattern or the table.
std::vector<Component<Layer>> blocks_of(const std::string& pattern,
                                        const BlockKinds& kinds,
                                        const Component<Layer>& block,
                                        i64 layers);

}  // namespace tessera
