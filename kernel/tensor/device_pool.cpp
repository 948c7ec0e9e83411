#include "kernel/tensor/device_pool.hpp"

#include <utility>

#include "kernel/tensor/host_stream.hpp"

namespace tessera {

DevicePool::DevicePool(std::shared_ptr<MemorySource> source,
                       CachingAllocator::Options options,
                       Refuse refuse)
    : allocator_(std::move(source), std::move(options)), refuse_(std::move(refuse)) {}

Block DevicePool::allocate(i64 bytes, Category category, Stream& stream) {
  refuse_(bytes, category);
  const Block block = allocator_.allocate(bytes, category, stream);
  poison(stream, block.address, block.bytes);
  return block;
}

void DevicePool::release(const Block& block) {
  allocator_.release(block);
  poison(*block.stream, block.address, block.bytes);
}

}  // namespace tessera
