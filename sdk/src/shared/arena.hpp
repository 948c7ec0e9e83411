#pragma once
#include <map>

#include "tessera/base/api.hpp"
#include "tessera/base/memory.hpp"

namespace tessera {

/// Where blocks lie in a piece of memory: best fit by offset, splitting and joining. From empty,
/// the same requests always give the same offsets. Memory that a stream released is only given to
/// that stream again, until everything has been released: then the layout is as new, so the owner
/// joins the streams that used it before refilling it.
class TESSERA_API ArenaLayout {
 public:
  /// Where the next block would lie. The layout grows without bound, see used_to().
  i64 place(i64 bytes, Stream& stream) const;
  /// Offset of a new block, the one that place() returns for the same arguments.
  i64 allocate(i64 bytes, Stream& stream);
  void release(i64 offset);
  /// End of the furthest block so far: the capacity that an Arena needs for this sequence.
  i64 used_to() const { return used_to_; }

 private:
  struct Extent {
    i64 bytes = 0;
    bool used = false;
    Stream* stream = nullptr;  // who may have it when it is free
  };
  using Extents = std::map<i64, Extent>;

  Extents extents_;  // from offset 0, without gaps
  i64 used_to_ = 0, live_ = 0;
};

/// A fixed piece of memory for graphs, taken once from a parent pool (category graph). An identical
/// sequence of requests from empty gets identical addresses. An ArenaLayout that served the
/// sequence says how much it needs. Outlives its blocks; the parent outlives the arena.
class TESSERA_API Arena final : public Pool {
 public:
  Arena(Pool& parent, i64 bytes, Stream& stream);
  ~Arena() override;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Throws Error when the request does not fit, naming sizes.
  Block allocate(i64 bytes, Category category, Stream& stream) override;
  void release(const Block& block) override;

  void* address() const { return memory_.address; }
  i64 bytes() const { return bytes_; }
  const ArenaLayout& layout() const { return layout_; }

 private:
  Pool& parent_;
  i64 bytes_;
  Block memory_;
  ArenaLayout layout_;
};

}  // namespace tessera
