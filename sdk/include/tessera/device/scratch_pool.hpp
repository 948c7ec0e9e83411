#pragma once
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// Memory for values that wait to be reduced. Blocks are used again, because fresh pages cost more
/// than the sums. Thread-safe.
class TESSERA_API ScratchPool {
 public:
  /// Goes back to the pool when it is destroyed; the pool must live longer.
  class TESSERA_API Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept { *this = std::move(other); }
    Block& operator=(Block&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(memory_, other.memory_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Block();
    std::byte* data() const { return memory_.get(); }

   private:
    friend class ScratchPool;
    ScratchPool* pool_ = nullptr;
    std::unique_ptr<std::byte[]> memory_;
    i64 bytes_ = 0;
  };

  /// Returns at least this many bytes, not initialised.
  Block take(i64 bytes);

 private:
  std::mutex mutex_;
  std::vector<Block> idle_;  // the one that came back last is last
};

}  // namespace tessera
