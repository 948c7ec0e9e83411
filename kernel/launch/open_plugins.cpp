#include "kernel/launch/open_plugins.hpp"

#include <utility>

#include "kernel/comm/threads.hpp"
#include "kernel/plugin/search_path.hpp"

namespace tessera {

std::shared_ptr<PluginHost> open_plugins(const std::vector<std::filesystem::path>& configured) {
  auto host = std::make_shared<PluginHost>(plugin_search_path(configured));
  host->add_builtin(&register_threads);
  return host;
}

std::shared_ptr<PluginHost> open_plugins(const std::vector<std::string>& given,
                                         const Config& config) {
  std::vector<std::filesystem::path> folders(given.begin(), given.end());
  for (std::filesystem::path& folder : config.plugin_path()) folders.push_back(std::move(folder));
  return open_plugins(folders);
}

}  // namespace tessera
