#pragma once
#include <vector>

#include "kernels.hpp"

namespace tessera::cpu {

/// All kernels of the device that HostDevice does not bring, on one instruction set.
std::vector<Kernel> make_kernels(const Kernels& table);

/// Matrix products, by oneDNN or by `tiles` (README.md); each device has one of its own.
Kernel make_matmul_kernel(const WorkspaceKernel<MatmulArgs>& tiles);

}  // namespace tessera::cpu
