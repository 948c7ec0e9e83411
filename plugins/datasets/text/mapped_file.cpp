#include "mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tessera/error.hpp"

namespace tessera {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void fail_file(const std::string& path) {
  fail_config("data.path: cannot read \"{}\": {}", path, std::strerror(errno));
}

}  // namespace

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  const Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail_file(path_);
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) fail_file(path_);
  if (!S_ISREG(info.st_mode)) {
    fail_config("data.path: \"{}\" is neither a file nor a folder of *.txt files", path_);
  }
  if (info.st_size == 0) return;
  const auto size = static_cast<std::size_t>(info.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (address == MAP_FAILED) fail_file(path_);
  text_ = {static_cast<const char*>(address), size};
}

MappedFile::~MappedFile() {
  if (!text_.empty()) ::munmap(const_cast<char*>(text_.data()), text_.size());
}

}  // namespace tessera
