#pragma once
#include <vector>

#include "tessera/operation.hpp"

namespace tessera {

/// Kernels of HostOperations (core_ops.hpp): the same on every device whose memory the CPU
/// addresses. A device's own and those that plugins registered win over them.
std::vector<Kernel> host_kernels();

/// Kernels that bring rows into the order of experts, and those of routers; host_kernels() has
/// them, too.
std::vector<Kernel> host_kernels_moe();
std::vector<Kernel> host_kernels_router();

}  // namespace tessera
