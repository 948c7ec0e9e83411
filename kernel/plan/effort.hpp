#pragma once
#include "kernel/plan/hardware.hpp"
#include "tessera/operation.hpp"

namespace tessera {

/// What one launch works, known from its arguments' shapes.
struct Effort {
  double flops = 0;  ///< of matrix products and attention; 0 for all that moves bytes only
  DType dtype = DType::f32;
  double bytes = 0;        ///< that it reads and writes
  double timed_bytes = 0;  ///< the same as the hardware is timed with (Hardware::f32_timed_as)
};

/// A product of [m, k] and [k, n] counts 2·m·n·k. Attention counts two products forward and four
/// backward over the area of the scores below the diagonal; what a kernel computes again for lack
/// of memory is its own affair.
Effort effort_of(const Kernel& kernel, const void* args, const Hardware& hardware);

/// The larger of what its operations and its bytes take, behind the launch.
double seconds_of(const Effort& effort, const Hardware& hardware);

}  // namespace tessera
