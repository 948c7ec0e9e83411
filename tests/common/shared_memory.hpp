#pragma once
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

namespace tessera::testing {

/// What Tessera has in /dev/shm; others use the folder, too.
inline std::set<std::string> shared_memory() {
  std::set<std::string> names;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", missing)) {
    const std::string name = entry.path().filename();
    if (name.find("tessera") != std::string::npos) names.insert(name);
  }
  return names;
}

}  // namespace tessera::testing
