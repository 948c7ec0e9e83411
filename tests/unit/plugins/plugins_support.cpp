#include "tests/unit/plugins/plugins_support.hpp"

#include <stdlib.h>

#include <fstream>
#include <iterator>

namespace tessera {

const PluginHost& build_plugins() {
  static const PluginHost kHost({std::filesystem::path(TESSERA_BUILD_DIR) / "plugins"});
  return kHost;
}

TestFolder::TestFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "tessera-test-").string() + "XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
  path_ = name;
}

TestFolder::~TestFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string TestFolder::write(std::string_view name, std::string_view text) const {
  const std::filesystem::path file = path_ / name;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
  return file.string();
}

std::string TestFolder::read(std::string_view name) const {
  std::ifstream in(path_ / name, std::ios::binary);
  if (!in) throw std::runtime_error("no file " + at(name));
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace tessera
