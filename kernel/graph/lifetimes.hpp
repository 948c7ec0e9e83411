#pragma once
#include <map>
#include <vector>

#include "tessera/memory.hpp"

namespace tessera {

/// What graphs asked for, one after the other. The same code on the same shapes asks for the same
/// again, so what was seen in a warm-up says where each block of a capture belongs.
struct Request {
  i64 bytes = 0;
  bool kept = false;  ///< outlives the graph that asked for it
};
struct Lifetimes {
  std::vector<Request> requests;
  i64 kept_bytes = 0;     ///< of the arena for blocks that outlive their graph
  i64 scratch_bytes = 0;  ///< of the arena for blocks that die inside; each graph reuses it
};

/// Serves a warm-up from a parent pool and notes which blocks outlive the graph that they were
/// requested in.
class LifetimeRecorder final : public Pool {
 public:
  explicit LifetimeRecorder(Pool& parent) : parent_(parent) {}

  Block allocate(i64 bytes, Category category, Stream& stream) override;
  void release(const Block& block) override;
  /// Ends a graph: what was requested so far and is not released outlives it.
  void keep_live();
  /// The requests of all graphs. Blocks may still be released afterwards.
  Lifetimes lifetimes() const;

 private:
  struct Step {
    std::size_t request = 0;
    Stream* stream = nullptr;  ///< nullptr: a release
  };
  Pool& parent_;
  std::vector<Request> requests_;
  std::vector<Step> steps_;
  std::map<void*, std::size_t> open_;
};

}  // namespace tessera
