#include "kernel/tensor/unbacked_memory.hpp"

#include <sys/mman.h>

#include <cstddef>

namespace tessera {

void* UnbackedMemory::reserve(i64 bytes) {
  void* address = mmap(nullptr,
                       static_cast<std::size_t>(bytes),
                       PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                       -1,
                       0);
  return address == MAP_FAILED ? nullptr : address;
}

void UnbackedMemory::release(void* address, i64 bytes) {
  munmap(address, static_cast<std::size_t>(bytes));
}

}  // namespace tessera
