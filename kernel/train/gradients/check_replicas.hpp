#pragma once
#include "kernel/model/model_parts.hpp"
#include "kernel/train/gradients/gradient_sync.hpp"

namespace tessera {

/// Compares replicated parameters over the groups that hold copies: all forms that each of them
/// holds whole; and saved buffers. All ranks call it. Throws Error naming the first that differs,
/// after which `step`. Waits for the device.
void check_replicas(Context& cx, const ModelParts& parts, const GradientSync& gradients, i64 step);

}  // namespace tessera
