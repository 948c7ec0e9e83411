#include "tessera/observer.hpp"

#include <filesystem>

#include "tessera/error.hpp"
#include "tessera/io/output_file.hpp"
#include "tessera/log.hpp"

namespace tessera {

std::string numbered_path(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path from(path);
  for (i64 number = 1;; ++number) {
    const std::string name =
        fmt::format("{}.{}{}", from.stem().string(), number, from.extension().string());
    fs::path to = from.parent_path() / name;
    if (!fs::exists(fs::symlink_status(to))) return to.string();
  }
}

void set_aside(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path from(path);
  // What is no file, a pipe say, stays: who writes there refuses it.
  if (!fs::is_regular_file(from, error) || fs::is_empty(from, error)) return;
  fs::path to = numbered_path(path);
  while (!rename_new(from, to)) to = numbered_path(path);  // something took that name meanwhile
  log_info("{} was there before: it is kept as {}", path, to.filename().string());
}

bool is_pipe(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_fifo(path, error);
}

}  // namespace tessera
