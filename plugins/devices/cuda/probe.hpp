#pragma once
#include "runtime.hpp"

namespace tessera::cuda {

/// cudaErrorNoKernelImageForDevice where this build has no code for the GPU that is current,
/// cudaErrorUnsupportedPtxVersion where the driver cannot compile what it has.
cudaError_t find_code();

}  // namespace tessera::cuda
