#include "plugin_support.hpp"

namespace tessera::testing {
namespace fs = std::filesystem;

fs::path plugin_folder(const std::string& name) {
  return fs::path(TESSERA_BUILD_DIR) / "tests" / "plugins" / name;
}

fs::path plugin_file(const std::string& name) {
  return plugin_folder(name) / ("libtessera_test_" + name + ".so");
}

}  // namespace tessera::testing
