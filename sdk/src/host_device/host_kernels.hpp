#pragma once
#include <vector>

#include "tessera/operation.hpp"

namespace tessera {

/// Kernels of HostOperations (core_ops.hpp): the same on every device whose memory the CPU
/// addresses. A device's own and those that plugins registered win over them.
std::vector<Kernel> host_kernels();

}  // namespace tessera
