#pragma once
#include <string>
#include <string_view>

#include "tessera/mesh.hpp"

namespace tessera {

/// How a plan names a group of the mesh (Mesh::group_names), so that one set of groups has one
/// name: the axes along which this layout has several ranks. "dp-cp" without context parallelism
/// is "dp". Where experts lie as the dense part does, their groups have the dense axes' names.
/// Empty: groups of one rank.
std::string shown_group(std::string_view name, const RankGenerator& ranks);

}  // namespace tessera
