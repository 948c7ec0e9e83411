#pragma once
#include <span>
#include <string_view>

#include "tessera/device/communicator.hpp"
#include "tessera/mesh.hpp"

namespace tessera {

/// Creates all process groups of `mesh`, in the order of Mesh::group_names(). All ranks call it
/// with the same layout; groups are created in one global order. Groups of one get no backend.
/// Throws ConfigError where the communicator does not carry tensors of the device
/// (check_memory_kinds). `progress`, which outlives the mesh, is told of the collectives.
void build_mesh(Mesh& mesh,
                Communicator& communicator,
                Device& device,
                Progress* progress = nullptr);

/// The same for a mesh of one rank, which needs no communicator.
void build_mesh(Mesh& mesh);

/// "tp[0,1]"; long groups are shortened: "dp[0,4,8,…,60]".
std::string group_name(std::string_view name, std::span<const i64> members);

}  // namespace tessera
