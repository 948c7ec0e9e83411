#include "sdk/src/shared/control_group.hpp"

#include <fstream>
#include <sstream>
#include <string>

namespace tessera {

namespace fs = std::filesystem;

namespace {

bool names(const std::string& controllers, std::string_view wanted) {
  std::istringstream list{controllers};
  for (std::string name; std::getline(list, name, ',');) {
    if (name == wanted) return true;
  }
  return false;
}

}  // namespace

std::vector<fs::path> control_groups(std::string_view controller,
                                     const fs::path& proc,
                                     const fs::path& mounted) {
  std::vector<fs::path> out;
  const auto up_from = [&](const fs::path& root, const std::string& path) {
    fs::path group = fs::path(path).relative_path().lexically_normal();
    while (!group.empty()) {
      out.push_back(root / group);
      group = group.parent_path();
    }
    out.push_back(root);
  };
  std::ifstream lines(proc / "self/cgroup");
  for (std::string line; std::getline(lines, line);) {  // "4:cpu,cpuacct:/path", v2 "0::/path"
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      up_from(mounted, path);
    } else if (names(controllers, controller)) {
      up_from(mounted / controllers, path);
      if (controllers != controller) up_from(mounted / controller, path);
    }
  }
  return out;
}

}  // namespace tessera
