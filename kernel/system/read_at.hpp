#pragma once
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>

#include "tessera/types.hpp"

namespace tessera {

/// Fills `to` from place `offset` of an open file, in as many pieces as the system makes of it.
/// Returns how many bytes there were, fewer than asked for at the file's end; -1: an error, which
/// is in errno.
inline ssize_t read_at(int file, std::span<std::byte> to, u64 offset) noexcept {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t count =
        ::pread(file, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return static_cast<ssize_t>(done);
}

}  // namespace tessera
