#pragma once
#include "kernel/comm/communicators.hpp"
#include "kernel/plugin/host.hpp"
#include "kernel/train/setup/run_setup.hpp"

namespace tessera {

/// Throws ConfigError, with the key's place, where the ranks of a run could not exchange tensors of
/// the device, or where comm.staged has no effect (check_memory_kinds): as far as types of
/// communicators state what they carry, before one is made.
void check_carried_memory(const RunSetup& setup, const PluginHost& plugins, const Device& device);

/// What comm.type = "auto" may be for the device, or through the host's memory where comm.staged
/// says so. Empty where comm.type says another type.
AutoCommunicators auto_communicators(const RunSetup& setup,
                                     const PluginHost& plugins,
                                     const Device& device);

}  // namespace tessera
