#include "tessera/io/kept_bytes.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "tessera/error.hpp"
#include "tessera/io/output_file.hpp"

namespace tessera {
namespace {

// Held until the descriptor is closed; two threads of a process wait for each other as well.
Descriptor locked(const std::string& path) {
  Descriptor lock = open_output(path, O_RDWR);
  if (!lock) fail_file("open", path);
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) fail_file("lock", path);
  }
  return lock;
}

}  // namespace

KeptBytes::KeptBytes(const std::string& folder,
                     const std::string& name,
                     const std::function<std::string()>& make,
                     const std::function<bool(std::string_view)>& valid) {
  if (folder.empty()) {
    memory_ = std::make_unique<const std::string>(make());
    return;
  }
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("cannot create {}: {}", folder, SystemError(error));
  const std::string path = (fs::path(folder) / name).string();
  const auto open = [&] {
    if (!fs::exists(path, error)) return false;
    file_.emplace(path, "what an earlier run kept");
    if (valid(file_->text())) return true;
    file_.reset();
    return false;
  };
  if (open()) return;
  const Descriptor lock = locked(path + ".lock");
  if (open()) return;  // another rank made it meanwhile
  const std::string partial = path + ".partial";
  {
    OutputFile out(partial);
    out.write(make());
    out.sync();
  }
  if (std::rename(partial.c_str(), path.c_str()) != 0) fail_file("rename", partial);
  require(open(), "{} is not what was written a moment ago", path);
}

}  // namespace tessera
