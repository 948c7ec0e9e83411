#include "kernel/checkpoint/disk.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tessera/error.hpp"
#include "tessera/written.hpp"

namespace tessera {

void fail_file(std::string_view what, const std::filesystem::path& file) {
  const int why = errno;
  fail("cannot {} {}: {}", what, written_path(file), std::strerror(why));
}

// Whoever may write into a folder could have put a link there: what it leads to is not ours.
OutputFile::OutputFile(const std::filesystem::path& file)
    : file_(file),
      fd_(::open(
          file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW, 0644)) {
  if (fd_ < 0) fail_file("create", file_);
}

OutputFile::~OutputFile() { ::close(fd_); }

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_file("write", file_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::sync() {
  if (::fsync(fd_) != 0) fail_file("sync", file_);
}

void write_synced(const std::filesystem::path& file, const std::string& text) {
  OutputFile out(file);
  out.write(std::as_bytes(std::span(text)));
  out.sync();
}

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_file("open", folder);
  const int result = ::fsync(fd);
  const int why = errno;
  ::close(fd);
  errno = why;
  if (result != 0) fail_file("sync", folder);
}

int open_file(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) fail_file("open", file);
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0;
  if (known && S_ISREG(status.st_mode)) return fd;
  ::close(fd);
  if (!known) fail_file("inspect", file);
  fail("{} is not a regular file", file.string());
}

std::string read_text_file(const std::filesystem::path& file) {
  constexpr off_t kLargest = off_t{1} << 30;  // an index of 100,000 slices has a tenth of it
  const int fd = open_file(file);
  struct stat status {};
  if (::fstat(fd, &status) == 0 && status.st_size > kLargest) {
    ::close(fd);
    fail("{} has {} bytes, more than {}", written_path(file), status.st_size, kLargest);
  }
  std::string text;
  std::array<char, 65536> buffer;
  ssize_t count = 0;
  while ((count = ::read(fd, buffer.data(), buffer.size())) != 0) {
    if (count > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      break;
    }
  }
  const int why = errno;
  ::close(fd);
  errno = why;
  if (count < 0) fail_file("read", file);
  return text;
}

}  // namespace tessera
