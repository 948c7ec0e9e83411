#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include <tessera/types.hpp>

namespace tessera::shm {

/// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// A segment mapped into this process.
class Mapping {
 public:
  Mapping() = default;
  /// Throws Error naming `whose` segment and the reason.
  Mapping(const Fd& file, i64 bytes, const std::string& whose);
  Mapping(Mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();
  std::byte* base() const { return base_; }
  i64 bytes() const { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  i64 bytes_ = 0;
};

/// This rank's segment: an anonymous file in memory, sparse, so that its size costs nothing until
/// pages are used; it vanishes with the last process that holds it. Used on the rank's thread.
class Segment {
 public:
  explicit Segment(i64 bytes);
  const Fd& file() const { return file_; }
  const Mapping& mapping() const { return mapping_; }

  /// Zeroed pages; nullptr when there is no gap of this size.
  void* reserve(i64 bytes);
  /// Gives the pages back to the system.
  void release(void* address, i64 bytes);

 private:
  Fd file_;
  Mapping mapping_;
  std::map<i64, i64> free_;  // offset -> bytes, never adjacent
};

/// A size that holds whatever this machine can, with `world` such segments in one address space.
i64 default_segment_bytes(i64 world);

}  // namespace tessera::shm
