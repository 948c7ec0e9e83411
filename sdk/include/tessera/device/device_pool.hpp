#pragma once
#include <functional>
#include <memory>

#include "tessera/device/caching_allocator.hpp"

namespace tessera {

/// A device's own pool: its caching allocator, which a capture must not use, and which
/// poisons memory in the test mode `deferred`.
class TESSERA_API DevicePool final : public Pool {
 public:
  /// `refuse` is called before every allocation and throws while a capture is in progress.
  using Refuse = std::function<void(i64 bytes, Category category)>;
  /// Fills memory in stream order, never as a part of a graph; empty where nothing is poisoned.
  using Poison = std::function<void(Stream& stream, void* address, i64 bytes)>;

  DevicePool(std::shared_ptr<MemorySource> source,
             CachingAllocator::Options options,
             Refuse refuse,
             Poison poison);
  Block allocate(i64 bytes, Category category, Stream& stream) override;
  void release(const Block& block) override;

  CachingAllocator& allocator() { return allocator_; }
  const CachingAllocator& allocator() const { return allocator_; }

 private:
  CachingAllocator allocator_;
  Refuse refuse_;
  Poison poison_;
};

}  // namespace tessera
