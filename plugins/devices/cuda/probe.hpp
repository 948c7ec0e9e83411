#pragma once
#include "runtime.hpp"

namespace tessera::cuda {

/// cudaErrorNoKernelImageForDevice where this build has no code for the GPU that is current.
cudaError_t find_code();

}  // namespace tessera::cuda
