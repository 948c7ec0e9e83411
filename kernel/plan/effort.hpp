#pragma once
#include "kernel/plan/hardware.hpp"
#include "tessera/operation.hpp"

namespace tessera {

/// Seconds of a launch: its latency, plus the larger of the times of its FLOPs and its bytes. Bytes
/// count as the hardware table times them (Hardware::fp32_timed_as).
double seconds_of(const Effort& effort, const Hardware& hardware, bool replayed = false);

}  // namespace tessera
