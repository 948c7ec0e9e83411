#pragma once
// CUDA's runtime: the toolkit's, or for the emulator that of tests/cuda_emulated.
#include <cuda_runtime.h>

#include <string_view>

#include "tessera/error.hpp"

namespace tessera::cuda {

/// Throws an Error with the call, the runtime's name and its text of the error, unless it is
/// cudaSuccess. The runtime forgets it, so that the next launch does not tell it as its own; all
/// but one that stays.
inline void check(cudaError_t result, std::string_view call) {
  if (result == cudaSuccess) return;
  (void)cudaGetLastError();
  fail("{}: {} ({})", call, cudaGetErrorString(result), cudaGetErrorName(result));
}

}  // namespace tessera::cuda
