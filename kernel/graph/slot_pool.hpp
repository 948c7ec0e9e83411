#pragma once
#include <vector>

#include "kernel/graph/lifetimes.hpp"
#include "kernel/graph/live_memory.hpp"
#include "tessera/arena.hpp"

namespace tessera {

/// Memory of one graph slot while its graphs are captured: what the warm-up saw outlive its graph
/// comes from the slot's own arena, the rest from the scratch arena that all graphs of a stream
/// share.
class SlotPool final : public Pool {
 public:
  /// Outlives every tensor that it served; the arenas outlive the pool.
  SlotPool(const Lifetimes& lifetimes, Arena& kept, Arena& scratch)
      : lifetimes_(lifetimes), kept_(kept), scratch_(scratch) {}

  /// Throws Error when the capture asks for other memory than its warm-up.
  Block allocate(i64 bytes, Category category, Stream& stream) override;
  void release(const Block& block) override;
  /// The ranges given out since the last call. Throws when scratch memory is still in use.
  GraphMemory end_graph();

 private:
  const Lifetimes& lifetimes_;
  Arena &kept_, &scratch_;
  std::size_t next_ = 0;
  i64 in_scratch_ = 0;
  GraphMemory memory_;
};

}  // namespace tessera
