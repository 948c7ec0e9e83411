#pragma once
#include "tessera/base/parameter_memory.hpp"
#include "tessera/mesh.hpp"
#include "tessera/optimizer.hpp"

namespace tessera {

/// The replica of this rank, with its context coordinate, that holds most main values and optimizer
/// state; the first of several. Replicas that own whole parameters differ: a rule may
/// keep two moments of some parameters and one of others. Where none does, it is this rank.
i64 fullest_replica(const Mesh& mesh, const ParameterMemory& memory, Optimizer& optimizer);

}  // namespace tessera
