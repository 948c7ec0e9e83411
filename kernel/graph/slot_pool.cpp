#include "kernel/graph/slot_pool.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include "tessera/error.hpp"

namespace tessera {

namespace {

bool within(const Arena* arena, const void* address) {
  if (arena == nullptr) return false;
  const auto* begin = static_cast<const std::byte*>(arena->address());
  const auto* at = static_cast<const std::byte*>(address);
  return at >= begin && at < begin + arena->bytes();
}

}  // namespace

Arena& SlotPool::arena(Lifetime lifetime) const {
  Arena* arena = arenas_[static_cast<std::size_t>(lifetime)];
  require(arena != nullptr, "no arena for the memory that a graph asks for");
  return *arena;
}

Block SlotPool::allocate(i64 bytes, Category category, Stream& stream) {
  require(next_ < lifetimes_.requests.size() && lifetimes_.requests[next_].bytes == bytes,
          "request {} of a capture, {} bytes of {}, is not what its warm-up asked for: what is "
          "captured must do the same every time",
          next_,
          bytes,
          category_name(category));
  const Lifetime lifetime = lifetimes_.requests[next_++].lifetime;
  const Block block = arena(lifetime).allocate(bytes, category, stream);
  std::vector<AddressRange>& ranges = lifetime == Lifetime::slot         ? memory_.kept
                                      : lifetime == Lifetime::recomputed ? memory_.recomputed
                                                                         : memory_.scratch;
  ranges.push_back({block.address, block.bytes});
  if (lifetime == Lifetime::graph) ++in_scratch_;
  return block;
}

void SlotPool::release(const Block& block) {
  // The slot's own first: what it keeps may be released after the shared ones have gone.
  auto arenas = std::views::reverse(arenas_);
  const auto home = std::ranges::find_if(
      arenas, [&](const Arena* arena) { return within(arena, block.address); });
  require(home != arenas.end(), "release of a block that this capture did not request");
  if (*home == arenas_.front()) --in_scratch_;
  (*home)->release(block);
}

GraphMemory SlotPool::end_graph() {
  require(in_scratch_ == 0,
          "{} blocks that died inside the warm-up outlive the captured graph",
          in_scratch_);
  return std::exchange(memory_, {});
}

}  // namespace tessera
