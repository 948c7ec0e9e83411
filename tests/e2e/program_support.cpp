#include "program_support.hpp"

#include <stdlib.h>

#include <fstream>
#include <stdexcept>

namespace tessera::testing {
namespace fs = std::filesystem;

std::string tessera_program() { return TESSERA_BUILD_DIR "/bin/tessera"; }

ProcessResult run_tessera(std::vector<std::string> arguments, const ProcessOptions& options) {
  arguments.insert(arguments.begin(), tessera_program());
  return run_process(std::move(arguments), options);
}

std::string cached(const std::string& key) {
  std::ifstream file(TESSERA_BUILD_DIR "/CMakeCache.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return line.substr(line.find('=') + 1);
  }
  return {};
}

std::map<std::string, std::string> compiler_variables() {
  std::map<std::string, std::string> variables = {{"CXX", cached("CMAKE_CXX_COMPILER")},
                                                  {"CXXFLAGS", cached("CMAKE_CXX_FLAGS")}};
  if (const std::string sanitizers = cached("TESSERA_SANITIZE"); !sanitizers.empty()) {
    variables["CXXFLAGS"] += " -fsanitize=" + sanitizers;
  }
  const std::string ccache = cached("TESSERA_CCACHE");
  if (fs::exists(ccache)) variables["CMAKE_CXX_COMPILER_LAUNCHER"] = ccache;
  return variables;
}

TemporaryFolder::TemporaryFolder() {
  std::string path = (fs::temp_directory_path() / "tessera_e2e_XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = path;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

std::string TemporaryFolder::write(const std::string& name, const std::string& text) const {
  const fs::path path = path_ / name;
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
  return path.string();
}

}  // namespace tessera::testing
