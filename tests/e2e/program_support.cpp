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
