#pragma once
#include <array>
#include <map>
#include <vector>

#include "tessera/base/memory.hpp"

namespace tessera {

/// How long a block of a graph slot is used.
enum class Lifetime : u8 {
  graph,       ///< within one graph
  recomputed,  ///< from the graph that recomputes to the backward pass that follows at once
  slot,        ///< beyond that: while the slot holds its microbatch
};
inline constexpr int kLifetimes = 3;

/// Requests of graphs, in order. The same code on the same shapes asks for the same again, so a
/// warm-up tells where each block of a capture belongs.
struct Request {
  i64 bytes = 0;
  Lifetime lifetime = Lifetime::graph;
};
struct Lifetimes {
  std::vector<Request> requests;
  /// Bytes of the arena, by lifetime. Slots share the first two.
  std::array<i64, kLifetimes> arena_bytes = {};
  i64 bytes(Lifetime lifetime) const { return arena_bytes[static_cast<std::size_t>(lifetime)]; }
};

/// Serves a warm-up from a parent pool and notes which blocks outlive the graph that they were
/// requested in.
class LifetimeRecorder final : public Pool {
 public:
  explicit LifetimeRecorder(Pool& parent) : parent_(parent) {}

  Block allocate(i64 bytes, Category category, Stream& stream) override;
  void release(const Block& block) override;
  /// Ends a graph. Blocks that were requested in it and are not released live for `rest`.
  void end_graph(Lifetime rest);
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
