#pragma once
#include <filesystem>
#include <string>

namespace tessera::testing {

/// Folder of one of the plugins that tests/unit/plugin/CMakeLists.txt builds.
std::filesystem::path plugin_folder(const std::string& name);
/// Its library.
std::filesystem::path plugin_file(const std::string& name);

/// An empty folder that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tessera::testing
