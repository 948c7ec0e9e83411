#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "process_support.hpp"

namespace tessera::testing {

/// Path of this build's `tessera`.
std::string tessera_program();
/// Runs it with these arguments to its end.
ProcessResult run_tessera(std::vector<std::string> arguments, const ProcessOptions& options = {});

/// What CMake remembers of this build: "CMAKE_CXX_COMPILER".
std::string cached(const std::string& key);
/// Variables of an environment in which CMake compiles a plugin as this build's host.
std::map<std::string, std::string> compiler_variables();

/// An empty folder that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  /// Writes a file below it and returns its path.
  std::string write(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace tessera::testing
