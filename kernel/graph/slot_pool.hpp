#pragma once
#include <array>

#include "kernel/graph/lifetimes.hpp"
#include "kernel/graph/live_memory.hpp"
#include "sdk/src/shared/arena.hpp"

namespace tessera {

/// Arenas for what graphs ask for, by Lifetime: the slot's own is last, the others are shared by
/// all graphs of a stream. One that nothing is asked of may be missing.
using SlotArenas = std::array<Arena*, kLifetimes>;

/// Memory of one graph slot while its graphs are captured: each block comes from the arena of the
/// lifetime that the warm-up saw.
class SlotPool final : public Pool {
 public:
  /// Outlives every tensor that it served; each arena outlives those that lie in it.
  SlotPool(const Lifetimes& lifetimes, const SlotArenas& arenas)
      : lifetimes_(lifetimes), arenas_(arenas) {}

  /// Throws Error when the capture asks for other memory than its warm-up.
  Block allocate(i64 bytes, Category category, Stream& stream) override;
  void release(const Block& block) override;
  /// The ranges given out since the last call. Throws when scratch memory is still in use.
  GraphMemory end_graph();

 private:
  Arena& arena(Lifetime lifetime) const;

  const Lifetimes& lifetimes_;
  SlotArenas arenas_;
  std::size_t next_ = 0;
  i64 in_scratch_ = 0;
  GraphMemory memory_;
};

}  // namespace tessera
