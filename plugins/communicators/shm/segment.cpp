#include "segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <tessera/error.hpp>

namespace tessera::shm {

namespace {

constexpr i64 kHugePage = 2 << 20;

Fd create(i64 bytes) {
  Fd file(memfd_create("tessera-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  require(bool(file), "shm: cannot create shared memory: {}", SystemError());
  // Sealed, because a segment that shrinks would kill its readers.
  if (fchmod(file.get(), 0600) != 0 || ftruncate(file.get(), bytes) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    fail("shm: cannot make a segment of {:.1f} GiB: {}; set comm.segment_gib to less",
         static_cast<double>(bytes) / (1 << 30),
         SystemError());
  }
  return file;
}

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

Mapping::Mapping(const Fd& file, i64 bytes, const std::string& whose) : bytes_(bytes) {
  void* base = mmap(nullptr,
                    static_cast<std::size_t>(bytes),
                    PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE,
                    file.get(),
                    0);
  require(base != MAP_FAILED,
          "shm: cannot map {} of {:.1f} GiB: {}; set comm.segment_gib to less",
          whose,
          static_cast<double>(bytes) / (1 << 30),
          SystemError());
  base_ = static_cast<std::byte*>(base);
  // Only a hint: without huge pages everything works, with more misses of the address cache.
  madvise(base, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
}

Mapping::~Mapping() {
  if (base_ != nullptr) munmap(base_, static_cast<std::size_t>(bytes_));
}

Segment::Segment(i64 bytes)
    : file_(create(bytes)), mapping_(file_, bytes, "this rank's segment"), free_{{0, bytes}} {}

void* Segment::reserve(i64 bytes) {
  // Large pieces start at huge pages; small ones share one.
  const i64 unit = bytes >= kHugePage ? kHugePage : 4096;
  for (const auto& [begin, length] : free_) {
    const i64 start = (begin + unit - 1) / unit * unit;
    const i64 end = begin + length, stop = start + bytes;
    if (stop > end) continue;
    const i64 first = begin;
    free_.erase(first);
    if (start > first) free_[first] = start - first;
    if (end > stop) free_[stop] = end - stop;
    return mapping_.base() + start;
  }
  return nullptr;
}

void Segment::release(void* address, i64 bytes) {
  i64 begin = static_cast<std::byte*>(address) - mapping_.base(), end = begin + bytes;
  // The next owner of these pages expects zeros.
  if (fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, bytes) != 0) {
    std::memset(address, 0, static_cast<std::size_t>(bytes));
  }
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == end) {
    end += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto last = std::prev(next);
    if (last->first + last->second == begin) {
      begin = last->first;
      free_.erase(last);
    }
  }
  free_[begin] = end - begin;
}

i64 default_segment_bytes(i64 world) {
  constexpr i64 kAddressSpace = i64{1} << 46;  // half of what user space has
  const i64 memory = static_cast<i64>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  const i64 most = kAddressSpace / std::max<i64>(world, 1);
  return std::max(std::min(memory, most) / kHugePage, i64{1}) * kHugePage;
}

}  // namespace tessera::shm
