#include "tests/unit/plugins/plugins_support.hpp"

#include <filesystem>

namespace tessera {

const PluginHost& build_plugins() {
  static const PluginHost kHost({std::filesystem::path(TESSERA_BUILD_DIR) / "plugins"});
  return kHost;
}

}  // namespace tessera
