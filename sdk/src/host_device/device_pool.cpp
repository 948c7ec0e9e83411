#include "tessera/device/device_pool.hpp"

#include <utility>

namespace tessera {

DevicePool::DevicePool(std::shared_ptr<MemorySource> source,
                       CachingAllocator::Options options,
                       Refuse refuse,
                       Poison poison)
    : allocator_(std::move(source), std::move(options)),
      refuse_(std::move(refuse)),
      poison_(std::move(poison)) {}

Block DevicePool::allocate(i64 bytes, Category category, Stream& stream) {
  refuse_(bytes, category);
  const Block block = allocator_.allocate(bytes, category, stream);
  if (poison_) poison_(stream, block.address, block.bytes);
  return block;
}

void DevicePool::release(const Block& block) {
  allocator_.release(block);
  if (poison_) poison_(*block.stream, block.address, block.bytes);
}

}  // namespace tessera
