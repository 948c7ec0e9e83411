#include "kernel/checkpoint/folder_place.hpp"

#include <system_error>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace fs = std::filesystem;

std::string why_no_folder(const fs::path& path) {
  fs::path there = path;
  std::error_code unknown;
  while (!fs::exists(fs::symlink_status(there, unknown)) && there.has_relative_path()) {
    there = there.parent_path();
  }
  const bool link = fs::is_symlink(fs::symlink_status(there, unknown));
  const fs::file_status status = fs::status(there, unknown);
  if (link && !fs::exists(status)) {
    const bool circle = unknown == std::errc::too_many_symbolic_link_levels;
    return fmt::format("{} is a link to {}, {}",
                       written_path(there),
                       written_path(fs::read_symlink(there, unknown)),
                       circle ? "which leads back to it; remove the link"
                              : "which does not exist; make that folder, or remove the link");
  }
  if (!fs::exists(status) || fs::is_directory(status)) return "";
  return written_path(there) + " is not a folder";
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return;
  const std::string why = why_no_folder(path);
  if (why.empty()) fail("cannot make the folder {}: {}", written_path(path), SystemError(error));
  fail("cannot make the folder {}: {}", written_path(path), why);
}

}  // namespace tessera
