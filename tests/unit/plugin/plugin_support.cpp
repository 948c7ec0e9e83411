#include "plugin_support.hpp"

#include <stdlib.h>

#include <stdexcept>

namespace tessera::testing {
namespace fs = std::filesystem;

fs::path plugin_folder(const std::string& name) {
  return fs::path(TESSERA_BUILD_DIR) / "tests" / "plugins" / name;
}

fs::path plugin_file(const std::string& name) {
  return plugin_folder(name) / ("libtessera_test_" + name + ".so");
}

TemporaryFolder::TemporaryFolder() {
  std::string path = (fs::temp_directory_path() / "tessera_test_XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = path;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

}  // namespace tessera::testing
