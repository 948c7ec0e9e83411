#include "emulated_copies.hpp"

#include <cstdint>
#include <cstring>

#include "emulated_gpu.hpp"
#include "thread_order.hpp"

namespace tessera::cuda::emulated {
namespace {

constexpr std::size_t kBytes = 16;

bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kBytes == 0;
}

}  // namespace

void AsyncCopies::start(void* to, const void* from, int bytes) {
  if (!is_aligned(to) || !is_aligned(from)) {
    kernel_error("copy_async of addresses that are no multiples of 16");
  }
  if (bytes < 0 || bytes > static_cast<int>(kBytes)) kernel_error("copy_async of over 16 bytes");
  std::memset(to, 0xff, kBytes);
  const Unseen scope;
  copies_.push_back({static_cast<std::byte*>(to),
                     static_cast<const std::byte*>(from),
                     static_cast<std::size_t>(bytes),
                     group_});
}

void AsyncCopies::commit() { ++group_; }

void AsyncCopies::wait(int all_but) {
  std::size_t arrived = 0;
  for (const Copy& copy : copies_) {
    if (group_ - copy.group <= static_cast<unsigned>(all_but)) break;
    if (copy.bytes > 0) std::memcpy(copy.to, copy.from, copy.bytes);
    std::memset(copy.to + copy.bytes, 0, kBytes - copy.bytes);
    ++arrived;
  }
  const Unseen scope;
  copies_.erase(copies_.begin(), copies_.begin() + static_cast<std::ptrdiff_t>(arrived));
}

void AsyncCopies::require_none() const {
  if (!copies_.empty()) {
    kernel_error("a thread ends while its copy_async are on their way: it never waited for them");
  }
}

void AsyncCopies::clear() {
  copies_.clear();
  group_ = 0;
  waited_ = false;
}

}  // namespace tessera::cuda::emulated
