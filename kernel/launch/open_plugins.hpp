#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "kernel/plugin/host.hpp"

namespace tessera {

/// Everything that a run can be composed of: the plugins of the search path, `configured`
/// ([plugins] path) first, and the kernel's own components. `crashed` are left alone (PluginHost).
std::shared_ptr<PluginHost> open_plugins(const std::vector<std::filesystem::path>& configured = {},
                                         const std::vector<CrashedPlugin>& crashed = {});

}  // namespace tessera
