#include "kernel/graph/slot_pool.hpp"

#include <utility>

#include "tessera/error.hpp"

namespace tessera {

namespace {

bool within(const Arena& arena, const void* address) {
  const auto* begin = static_cast<const std::byte*>(arena.address());
  const auto* at = static_cast<const std::byte*>(address);
  return at >= begin && at < begin + arena.bytes();
}

}  // namespace

Block SlotPool::allocate(i64 bytes, Category category, Stream& stream) {
  require(next_ < lifetimes_.requests.size() && lifetimes_.requests[next_].bytes == bytes,
          "request {} of a capture, {} bytes of {}, is not what its warm-up asked for: what is "
          "captured must do the same every time",
          next_,
          bytes,
          category_name(category));
  const bool kept = lifetimes_.requests[next_++].kept;
  const Block block = (kept ? kept_ : scratch_).allocate(bytes, category, stream);
  (kept ? memory_.kept : memory_.scratch).push_back({block.address, block.bytes});
  if (!kept) ++in_scratch_;
  return block;
}

void SlotPool::release(const Block& block) {
  const bool kept = within(kept_, block.address);
  if (!kept) --in_scratch_;
  (kept ? kept_ : scratch_).release(block);
}

GraphMemory SlotPool::end_graph() {
  require(in_scratch_ == 0,
          "{} blocks that died inside the warm-up outlive the captured graph",
          in_scratch_);
  return std::exchange(memory_, {});
}

}  // namespace tessera
