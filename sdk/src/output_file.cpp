#include "tessera/io/output_file.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

void fail_file(std::string_view what, const std::filesystem::path& file) {
  const int why = errno;
  fail("cannot {} {}: {}", what, written_path(file), SystemError(why));
}

Descriptor open_output(const std::filesystem::path& file, int flags) noexcept {
  constexpr int kAlways = O_CREAT | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW;
  return Descriptor(::open(file.c_str(), flags | kAlways, 0644));
}

OutputFile::OutputFile(std::filesystem::path file, Start start)
    : file_(std::move(file)),
      descriptor_(open_output(file_, O_WRONLY | (start == Start::empty ? O_TRUNC : O_APPEND))) {
  if (descriptor_) return;
  if (errno == ELOOP) {
    fail("cannot write {}: it is a symbolic link, which is not followed; remove it",
         written_path(file_));
  }
  fail_file(start == Start::empty ? "create" : "write", file_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_file("write", file_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void OutputFile::sync() {
  if (::fsync(descriptor_.get()) != 0) fail_file("sync", file_);
}

bool rename_new(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == EEXIST) return false;
  // EINVAL: this file system has no such renaming. ENOSYS: the kernel or a sandbox has none.
  if (errno != EINVAL && errno != ENOSYS) fail_file("rename", from);
  // A second name is refused where there is one; folders have no second names.
  if (::link(from.c_str(), to.c_str()) == 0) {
    if (::unlink(from.c_str()) != 0) fail_file("remove", from);
    return true;
  }
  if (errno == EEXIST) return false;
  struct stat there {};
  if (::lstat(to.c_str(), &there) == 0) return false;
  if (::rename(from.c_str(), to.c_str()) != 0) fail_file("rename", from);
  return true;
}

}  // namespace tessera
