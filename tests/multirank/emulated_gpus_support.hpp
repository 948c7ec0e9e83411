#pragma once
#include "kernel/plugin/host.hpp"

namespace tessera::testing {

/// The plugins of the build tree and the device `cuda_emulated`, on a host with eight GPUs; loaded
/// once a process.
const PluginHost& emulated_gpus();

}  // namespace tessera::testing
