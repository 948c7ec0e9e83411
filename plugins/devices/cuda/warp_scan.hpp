#pragma once
#include "gpu.hpp"

namespace tessera::cuda {

/// The sum of this lane's value and of those of the lanes before it.
__device__ __forceinline__ i64 sum_up_to_lane(i64 value) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const i64 before = __shfl_up_sync(kAllLanes, value, static_cast<unsigned>(distance));
    if (lane >= distance) value += before;
  }
  return value;
}

}  // namespace tessera::cuda
