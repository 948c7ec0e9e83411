#pragma once
#include <span>
#include <vector>

#include "kernel/config/hardware.hpp"
#include "tessera/process_group.hpp"

namespace tessera {

double timed_bytes(const Hardware& hardware, const std::vector<Transfer>& transfers);

/// Seconds of one collective of these members, for the one at `index`: the faster of a ring and,
/// for what is reduced or broadcast, a binary tree (Thakur et al. 2005). Transfers to neighbours
/// and to other hosts are under way at once.
double collective_seconds(const Hardware& hardware,
                          std::span<const i64> members,
                          int index,
                          const Collective& collective);

}  // namespace tessera
