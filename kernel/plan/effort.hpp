#pragma once
#include "kernel/plan/hardware.hpp"
#include "tessera/operation.hpp"

namespace tessera {

/// The larger of what a launch's FLOPs and its bytes take, after the launch's latency. Bytes are
/// those that the hardware is timed with (Hardware::f32_timed_as).
double seconds_of(const Effort& effort, const Hardware& hardware);

}  // namespace tessera
