#include "sdk/src/host_device/system_memory.hpp"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace tessera {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::byte* map(std::size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

}  // namespace

void* SystemMemory::reserve(i64 bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  if (size < kHugePage) return map(size);
  // A huge page needs its alignment: map more and cut both ends.
  std::byte* address = map(size + kHugePage);
  if (!address) return nullptr;
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(address) % kHugePage;
  if (head > 0) munmap(address, head);
  munmap(address + head + size, kHugePage - head);
  madvise(address + head, size, MADV_HUGEPAGE);  // advice: without it the memory works as well
  return address + head;
}

void SystemMemory::release(void* address, i64 bytes) {
  munmap(address, static_cast<std::size_t>(bytes));
}

}  // namespace tessera
