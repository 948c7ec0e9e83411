#pragma once
#include "kernel/plugin/origin.hpp"
#include "tessera/operation.hpp"

namespace tessera {

/// The same kernel, whose exceptions name its operation and plugin. `origin` is read in the call.
Kernel named_kernel(Kernel kernel, const PluginOrigin& origin);

}  // namespace tessera
