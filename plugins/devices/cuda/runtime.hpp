#pragma once
// CUDA's runtime: the toolkit's, or for the emulator that of tests/cuda_emulated.
#include <cuda_runtime.h>

#include <string_view>

namespace tessera::cuda {

/// Throws an Error with the call, the runtime's name and its text of the error, unless it is
/// cudaSuccess.
void check(cudaError_t result, std::string_view call);

}  // namespace tessera::cuda
