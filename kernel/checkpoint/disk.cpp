#include "kernel/checkpoint/disk.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

void write_synced(const std::filesystem::path& file, const std::string& text) {
  OutputFile out(file);
  out.write(text);
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
  fail("{} is not a regular file", written_path(file));
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
