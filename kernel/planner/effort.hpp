#pragma once
#include "kernel/config/hardware.hpp"
#include "tessera/operation.hpp"

namespace tessera {

/// How a launch is made.
struct LaunchKind {
  bool tf32 = false;      ///< Kernel::tf32
  bool replayed = false;  ///< by a graph
};

/// Seconds of a launch: its latency, plus the larger of the times of its FLOPs and its bytes. Bytes
/// count as the hardware table times them (Hardware::fp32_timed_as).
double seconds_of(const Effort& effort, const Hardware& hardware, const LaunchKind& kind = {});

}  // namespace tessera
