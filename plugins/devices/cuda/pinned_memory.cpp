#include "pinned_memory.hpp"

#include <algorithm>

#include "tessera/error.hpp"

namespace tessera::cuda {

PinnedMemory::PinnedMemory(const Device& device, i64 bytes) : device_(device), bytes_(bytes) {
  require(bytes >= 0, "a host block cannot have {} bytes", bytes);
  // Blocks of no bytes have an address of their own too.
  const auto size = static_cast<std::size_t>(std::max<i64>(bytes, 1));
  const cudaError_t result = cudaHostAlloc(&address_, size, cudaHostAllocDefault);
  if (result == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // it would be told again by the next launch
    throw Error(fmt::format("out of memory: the host has no {} bytes more that can be locked for "
                            "copies",
                            size))
        .add(Resource::memory);
  }
  check(result, "cudaHostAlloc");
}

PinnedMemory::~PinnedMemory() {
  if (cudaFreeHost(address_) != cudaSuccess) (void)cudaGetLastError();
}

bool PinnedMemory::in_use() const {
  return !std::all_of(
      last_.begin(), last_.end(), [](const auto& use) { return use.second->reached(); });
}

HostBlock PinnedBlocks::make(i64 bytes) {
  collect();
  auto memory = std::make_unique<PinnedMemory>(device_, bytes);
  ++made_;
  bytes_ += bytes;
  void* const address = memory->address();
  std::shared_ptr<PinnedMemory> owner(memory.release(), [list = dropped_](PinnedMemory* gone) {
    const std::lock_guard lock(list->mutex);
    list->blocks.emplace_back(gone);
  });
  return {std::move(owner), address, bytes};
}

void PinnedBlocks::collect() {
  const std::lock_guard lock(dropped_->mutex);
  std::erase_if(dropped_->blocks, [&](const auto& block) {
    if (block->in_use()) return false;
    bytes_ -= block->bytes();
    return true;
  });
}

}  // namespace tessera::cuda
