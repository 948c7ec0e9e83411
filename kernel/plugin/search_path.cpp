#include "kernel/plugin/search_path.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "kernel/config/home_path.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace fs = std::filesystem;
namespace {

void add(std::vector<fs::path>& folders, const fs::path& folder) {
  const fs::path canonical = fs::canonical(folder);
  if (std::find(folders.begin(), folders.end(), canonical) == folders.end()) {
    folders.push_back(canonical);
  }
}

void add_wanted(std::vector<fs::path>& folders, const fs::path& folder, std::string_view who) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    fail_config("{}: there is no folder {}", who, written_path(fs::absolute(folder)));
  }
  add(folders, folder);
}

std::string from_home(std::string_view folder) {
  try {
    return expand_home(folder);
  } catch (const ConfigError& error) {
    fail_config("TESSERA_PLUGIN_PATH: {}", error.what());
  }
}

}  // namespace

fs::path program_path() { return fs::read_symlink("/proc/self/exe"); }

std::vector<fs::path> plugin_search_path(const std::vector<fs::path>& configured) {
  return plugin_search_path(configured, std::getenv("TESSERA_PLUGIN_PATH"), program_path());
}

std::vector<fs::path> plugin_search_path(const std::vector<fs::path>& configured,
                                         const char* environment,
                                         const fs::path& program) {
  std::vector<fs::path> folders;
  for (const fs::path& folder : configured) add_wanted(folders, folder, "[plugins] path");
  std::string_view rest = environment == nullptr ? "" : environment;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
    // An empty entry would be the working folder.
    if (!folder.empty()) add_wanted(folders, from_home(folder), "TESSERA_PLUGIN_PATH");
  }
  const fs::path root = program.parent_path().parent_path();
  // An installed tree has the first; <prefix>/plugins would be somebody else's there.
  for (const fs::path& folder : {root / "lib" / "tessera" / "plugins", root / "plugins"}) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) continue;
    add(folders, folder);
    break;
  }
  return folders;
}

}  // namespace tessera
