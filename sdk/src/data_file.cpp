#include "tessera/io/data_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "tessera/base/hash.hpp"
#include "tessera/device/descriptor.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

// Where a file is mapped, for a signal handler: a list that only grows, because the handler may
// read it at any time. A file that is closed leaves its place to the next one.
struct DataFile::Mapping {
  std::atomic<const char*> begin = nullptr;  // nullptr: the place is free
  std::size_t bytes = 0;
  std::string path;
  Mapping* next = nullptr;

  static std::atomic<Mapping*> first;
  static std::mutex adding;
  static Mapping* add(std::string_view text, const std::string& path);
};

std::atomic<DataFile::Mapping*> DataFile::Mapping::first = nullptr;
std::mutex DataFile::Mapping::adding;

DataFile::Mapping* DataFile::Mapping::add(std::string_view text, const std::string& path) {
  const std::lock_guard lock(adding);
  Mapping* place = first;
  while (place != nullptr && place->begin != nullptr) place = place->next;
  const bool grows = place == nullptr;
  if (grows) place = new Mapping;
  place->bytes = text.size();
  place->path = path;
  place->begin = text.data();
  if (grows) {
    place->next = first;
    first = place;
  }
  return place;
}

namespace {

// A hash of pieces at fixed places, first and last among them; of all of it where it is short.
u64 sample_of(std::string_view text) {
  constexpr std::size_t kPieces = 16, kPiece = 4096;
  if (text.size() <= kPieces * kPiece) return hash64(text);
  u64 hash = 0;
  for (std::size_t i = 0; i < kPieces; ++i) {
    const std::size_t at = (text.size() - kPiece) / (kPieces - 1) * i;
    hash = hash64(text.substr(i + 1 < kPieces ? at : text.size() - kPiece, kPiece), hash);
  }
  return hash;
}

bool same(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

[[noreturn]] void fail_file(std::string_view key, const std::string& path) {
  const int why = errno;
  fail_config("{}: cannot read \"{}\": {}", key, written_path(path), SystemError(why));
}

}  // namespace

DataFile::DataFile(std::string path, std::string_view key) : path_(std::move(path)) {
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail_file(key, path_);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail_file(key, path_);
  if (!S_ISREG(info.st_mode)) {
    fail_config("{}: \"{}\" is no regular file", key, written_path(path_));
  }
  identity_ = {info.st_size, info.st_ino, info.st_mtim, info.st_ctim, 0};
  if (info.st_size == 0) return;
  const auto size = static_cast<std::size_t>(info.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) fail_file(key, path_);
  text_ = {static_cast<const char*>(address), size};
  mapping_ = Mapping::add(text_, path_);
  // Reading ahead of each piece would take a hundred times as long.
  ::madvise(address, size, MADV_RANDOM);
  identity_.sample = sample_of(text_);
  ::madvise(address, size, MADV_NORMAL);
}

DataFile::DataFile(DataFile&& other) noexcept
    : path_(std::move(other.path_)),
      text_(std::exchange(other.text_, {})),
      identity_(other.identity_),
      mapping_(std::exchange(other.mapping_, nullptr)) {}

DataFile::~DataFile() {
  if (mapping_ != nullptr) mapping_->begin = nullptr;
  if (!text_.empty()) ::munmap(const_cast<char*>(text_.data()), text_.size());
}

std::string DataFile::change() const {
  struct stat now {};
  if (::stat(path_.c_str(), &now) != 0) {
    return fmt::format("it cannot be found any more ({})", std::strerror(errno));
  }
  if (now.st_size != identity_.bytes) {
    return fmt::format("it had {} bytes and has {}", identity_.bytes, now.st_size);
  }
  if (now.st_ino != identity_.inode) return "another file has its name";
  if (!same(now.st_mtim, identity_.written)) return "it was written to";
  // This time moves with its rights and names as well, and cannot be put back as the other can.
  if (same(now.st_ctim, identity_.changed) || sample_of(text_) == identity_.sample) return "";
  return "it was written to, and its time was put back";
}

const char* DataFile::mapped_at(const void* address) noexcept {
  const auto* at = static_cast<const char*>(address);
  for (const Mapping* place = Mapping::first; place != nullptr; place = place->next) {
    const char* begin = place->begin;
    if (begin != nullptr && at >= begin && at < begin + place->bytes) return place->path.c_str();
  }
  return nullptr;
}

}  // namespace tessera
