#pragma once
#include "kernel/checkpoint/together.hpp"
#include "tessera/observer.hpp"

namespace tessera {

/// The memory of the rank whose device had the highest peak. Every rank brings its own and gets the
/// same answer; waits for all of them.
MemoryUse largest_memory(const Together& together, const MemoryStats& own, i64 step);

}  // namespace tessera
