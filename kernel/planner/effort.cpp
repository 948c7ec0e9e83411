#include "kernel/planner/effort.hpp"

#include <algorithm>

namespace tessera {

double seconds_of(const Effort& effort, const Hardware& hardware, const LaunchKind& kind) {
  double bytes = 0;
  for (int dtype = 0; dtype < kDTypes; ++dtype) {
    const auto moved = static_cast<i64>(effort.bytes[static_cast<std::size_t>(dtype)]);
    bytes += hardware.timed_bytes(static_cast<DType>(dtype), moved);
  }
  const double moving = bytes / (hardware.memory.bandwidth * hardware.memory.efficiency);
  const double working =
      effort.flops > 0 ? effort.flops / hardware.rate(effort.dtype, kind.tf32) : 0;
  return (kind.replayed ? 0 : hardware.launch_latency) + std::max(moving, working);
}

}  // namespace tessera
