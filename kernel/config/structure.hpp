#pragma once
#include <map>
#include <string>
#include <vector>

#include "kernel/config/tree.hpp"

namespace tessera {

/// The structural keys of a configuration (FieldBuilder::structural) with their values as text,
/// those of defaults too: "model.heads", "4". Checkpoints keep it, so that a plugin whose default
/// changes is noticed as well.
using Structure = std::map<std::string, std::string>;
Structure structure_of(const ConfigTree& tree);

/// A structural key whose value is another one now.
struct StructureChange {
  std::string key, before, now;
  /// "model.heads: 4, now 2"
  std::string text() const;
};
/// Lists changes in the order of the keys. Leaves out keys that one side lacks, which come or go
/// with the type of a component, and keys that are taken from another one of the list.
std::vector<StructureChange> structure_changes(const Structure& before, const ConfigTree& now);

}  // namespace tessera
