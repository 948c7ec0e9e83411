#pragma once
#include <string_view>

#include "tessera/types.hpp"

namespace tessera {

/// Tasks on the node with this index, from Slurm's short form "4(x2),3": 4, 4 and 3.
i64 slurm_tasks_of_node(std::string_view tasks_per_node, i64 node);

}  // namespace tessera
