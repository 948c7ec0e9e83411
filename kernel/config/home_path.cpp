#include "kernel/config/home_path.hpp"

#include <cstdlib>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

std::string expand_home(std::string_view path) {
  if (!path.starts_with('~')) return std::string(path);
  if (path.size() > 1 && path[1] != '/') {
    fail_config(
        "{}: only \"~/\" is read as a home folder, that of HOME; write another user's in full, and "
        "\"./~name\" for a name that begins so",
        quote(path));
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') {
    fail_config("{}: the environment variable HOME names no folder; write the path in full",
                quote(path));
  }
  return home + std::string(path.substr(1));
}

}  // namespace tessera
