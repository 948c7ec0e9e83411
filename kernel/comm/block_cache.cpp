#include "kernel/comm/block_cache.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace tessera {

namespace {

constexpr i64 kLeast = 4096;

}  // namespace

i64 BlockCache::block_bytes(i64 bytes) {
  return static_cast<i64>(std::bit_ceil(static_cast<u64>(std::max(bytes, kLeast))));
}

HostBlock BlockCache::take(i64 bytes) {
  const i64 size = block_bytes(bytes);
  std::deque<Idle>& idle = idle_[size];
  if (idle.empty()) return device_.host_block(size);
  const Event& last = idle.front().last_copy;
  if (!device_.query(last)) device_.join(last, kNoDeadline, "the last copy of a staged collective");
  HostBlock block = std::move(idle.front().block);
  idle.pop_front();
  return block;
}

void BlockCache::give_back(HostBlock block, Event last_copy) {
  idle_[block.bytes()].push_back({std::move(block), std::move(last_copy)});
}

}  // namespace tessera
