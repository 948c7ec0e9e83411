#include "kernel/launch/open_plugins.hpp"

#include "kernel/comm/threads.hpp"
#include "kernel/plugin/search_path.hpp"

namespace tessera {

std::shared_ptr<PluginHost> open_plugins(const std::vector<std::filesystem::path>& configured,
                                         const std::vector<CrashedPlugin>& crashed) {
  auto host = std::make_shared<PluginHost>(plugin_search_path(configured), crashed);
  host->add_builtin(&register_threads);
  return host;
}

}  // namespace tessera
