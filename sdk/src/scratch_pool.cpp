#include "tessera/device/scratch_pool.hpp"

namespace tessera {

namespace {
constexpr std::size_t kMostIdle = 16;
}

ScratchPool::Block::~Block() {
  if (memory_ == nullptr || pool_ == nullptr) return;
  Block oldest;  // freed outside of the lock
  ScratchPool& pool = *pool_;
  const std::lock_guard lock(pool.mutex_);
  pool.idle_.push_back(std::move(*this));
  pool.idle_.back().pool_ = nullptr;
  if (pool.idle_.size() > kMostIdle) {
    oldest = std::move(pool.idle_.front());
    pool.idle_.erase(pool.idle_.begin());
  }
}

ScratchPool::Block ScratchPool::take(i64 bytes) {
  Block block;
  {
    const std::lock_guard lock(mutex_);
    // The smallest that fits, up to twice the size: a task that takes a larger one makes
    // another take new memory, and in the end the pool holds more than is ever used at once.
    auto best = idle_.end();
    for (auto idle = idle_.begin(); idle != idle_.end(); ++idle) {
      if (idle->bytes_ < bytes || idle->bytes_ > 2 * bytes) continue;
      if (best == idle_.end() || idle->bytes_ <= best->bytes_) best = idle;
    }
    if (best != idle_.end()) {
      block = std::move(*best);
      idle_.erase(best);
    }
  }
  if (block.memory_ == nullptr) {
    block.memory_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
    block.bytes_ = bytes;
  }
  block.pool_ = this;
  return block;
}

}  // namespace tessera
