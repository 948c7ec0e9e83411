#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kernel/config/config.hpp"
#include "kernel/plugin/host.hpp"

namespace tessera {

/// Everything that a run can be composed of: the plugins of the search path, `configured`
/// ([plugins] path) first, and the kernel's own components.
std::shared_ptr<PluginHost> open_plugins(const std::vector<std::filesystem::path>& configured = {});
/// The same for folders that the command line names, then those of a configuration.
std::shared_ptr<PluginHost> open_plugins(const std::vector<std::string>& given,
                                         const Config& config);

}  // namespace tessera
