#include "sdk/src/shared/arena.hpp"

#include <algorithm>
#include <iterator>

#include "sdk/src/host_device/host_stream.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr i64 kAlignment = 64;

i64 aligned(i64 bytes) {
  return (std::max<i64>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

i64 ArenaLayout::place(i64 bytes, Stream& stream) const {
  const i64 size = aligned(bytes);
  const auto fits = [&](const Extent& extent) { return !extent.used && extent.stream == &stream; };
  auto best = extents_.end();
  for (auto it = extents_.begin(); it != extents_.end(); ++it) {
    if (!fits(it->second) || it->second.bytes < size) continue;
    if (best == extents_.end() || it->second.bytes < best->second.bytes) best = it;
  }
  if (best != extents_.end()) return best->first;
  if (extents_.empty()) return 0;
  const auto& [offset, last] = *extents_.rbegin();
  return fits(last) ? offset : offset + last.bytes;  // a last one that is too short grows
}

i64 ArenaLayout::allocate(i64 bytes, Stream& stream) {
  const i64 size = aligned(bytes);
  const i64 offset = place(bytes, stream);
  Extent& extent = extents_[offset];
  const i64 rest = extent.bytes - size;
  if (rest > 0) extents_[offset + size] = {rest, false, &stream};
  extent = {size, true, &stream};
  ++live_;
  used_to_ = std::max(used_to_, offset + size);
  return offset;
}

void ArenaLayout::release(i64 offset) {
  auto it = extents_.find(offset);
  require(it != extents_.end() && it->second.used,
          "release of memory at offset {} of an arena that is not in use: released twice?",
          offset);
  if (--live_ == 0) {
    extents_.clear();
    return;
  }
  it->second.used = false;
  const auto joins = [](const Extent& a, const Extent& b) {
    return !a.used && !b.used && a.stream == b.stream;
  };
  const auto next = std::next(it);
  if (next != extents_.end() && joins(it->second, next->second)) {
    it->second.bytes += next->second.bytes;
    extents_.erase(next);
  }
  if (it == extents_.begin()) return;
  const auto before = std::prev(it);
  if (joins(before->second, it->second)) {
    before->second.bytes += it->second.bytes;
    extents_.erase(it);
  }
}

Arena::Arena(Pool& parent, i64 bytes, Stream& stream)
    : parent_(parent), bytes_(bytes), memory_(parent.allocate(bytes, Category::graph, stream)) {}

Arena::~Arena() { parent_.release(memory_); }

Block Arena::allocate(i64 bytes, Category category, Stream& stream) {
  const i64 offset = layout_.place(bytes, stream);
  if (offset + aligned(bytes) > bytes_) {
    fail(
        "an arena of {} bytes has no room for {} bytes of {}: it would need {} bytes. A graph is "
        "captured with the requests that its warm-up made",
        bytes_,
        bytes,
        category_name(category),
        offset + aligned(bytes));
  }
  layout_.allocate(bytes, stream);
  void* address = static_cast<std::byte*>(memory_.address) + offset;
  poison(stream, address, aligned(bytes));
  return {address, aligned(bytes), category, &stream};
}

void Arena::release(const Block& block) {
  layout_.release(static_cast<std::byte*>(block.address) -
                  static_cast<std::byte*>(memory_.address));
  poison(*block.stream, block.address, block.bytes);
}

}  // namespace tessera
