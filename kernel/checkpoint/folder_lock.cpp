#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

#include "kernel/checkpoint/folder_place.hpp"
#include "kernel/checkpoint/folders.hpp"
#include "tessera/error.hpp"
#include "tessera/io/output_file.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

using namespace std::chrono_literals;

std::string holder(int fd) {
  std::array<char, 256> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : "another process";
}

std::string this_process() { return fmt::format("process {} on {}", ::getpid(), host_name()); }

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

FolderLock::FolderLock(const std::filesystem::path& folder,
                       std::string_view name,
                       std::string_view key)
    : file_(folder / name) {
  // A run that was killed a moment ago may still be on its way out.
  constexpr auto kPatience = 3s;
  make_folder(folder);
  std::error_code error;
  const std::string file = file_.string();
  const auto status = std::filesystem::symlink_status(file, error);
  require(!exists(status) || is_regular_file(status), "{} is not a regular file", file);
  lock_ = open_output(file_, O_RDWR);
  require(bool(lock_), "cannot write to {}: {}", folder.string(), SystemError());
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    const int why = errno;
    if (why == EINTR) continue;
    if (why == EWOULDBLOCK && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(50ms);
      continue;
    }
    if (why == EWOULDBLOCK) {
      const std::string other = holder(lock_.get());
      fail("{} is in use: {} writes there; wait for its end or set another {}",
           folder.string(),
           other,
           key);
    }
    log_warning("{}: cannot be locked ({}); take care that only one run writes there",
                folder.string(),
                std::strerror(why));
    return;
  }
  const std::string text = this_process();
  if (::ftruncate(lock_.get(), 0) != 0 || ::pwrite(lock_.get(), text.data(), text.size(), 0) < 0) {
    log_warning("{}: {}", file, std::strerror(errno));
  }
}

bool FolderLock::holds() const {
  struct stat mine {};
  struct stat there {};
  return ::fstat(lock_.get(), &mine) == 0 && ::stat(file_.c_str(), &there) == 0 &&
         mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

}  // namespace tessera
