#include "kernel/dry/unbacked_memory.hpp"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace tessera {

namespace {

// No address of a process is here, on any processor of 64 bits.
constexpr std::uintptr_t kNowhere = std::uintptr_t{1} << 60;

}  // namespace

void* UnbackedMemory::reserve(i64 bytes) {
  void* address = mmap(nullptr,
                       static_cast<std::size_t>(bytes),
                       PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                       -1,
                       0);
  if (address != MAP_FAILED) return address;
  // More than the address space has, or a limit allows: what is planned need not fit here.
  const std::uintptr_t made_up = kNowhere + made_up_;
  made_up_ += static_cast<std::uintptr_t>(bytes);
  return reinterpret_cast<void*>(made_up);
}

void UnbackedMemory::release(void* address, i64 bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) >= kNowhere) return;
  munmap(address, static_cast<std::size_t>(bytes));
}

}  // namespace tessera
