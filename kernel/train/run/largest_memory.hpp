#pragma once
#include <chrono>
#include <optional>

#include "kernel/comm/control_plane/control_plane.hpp"
#include "tessera/observer.hpp"

namespace tessera {

/// The memory of the rank whose device had the highest peak. Every rank brings its own; rank 0
/// waits for all of them and has the answer; the others have none.
std::optional<MemoryUse> largest_memory(const ControlPlane& plane,
                                        const MemoryStats& own,
                                        i64 step);

}  // namespace tessera
