#include "scratch.hpp"

#include <algorithm>

namespace tessera::gloo_tcp {

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
    // One of up to twice the size will do.
    const auto found = std::find_if(idle_.rbegin(), idle_.rend(), [&](const Block& idle) {
      return idle.bytes_ >= bytes && idle.bytes_ <= 2 * bytes;
    });
    if (found != idle_.rend()) {
      block = std::move(*found);
      idle_.erase(std::next(found).base());
    }
  }
  if (block.memory_ == nullptr) {
    block.memory_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
    block.bytes_ = bytes;
  }
  block.pool_ = this;
  return block;
}

}  // namespace tessera::gloo_tcp
