#pragma once
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernel/graph/live_memory.hpp"
#include "kernel/schedule/trace.hpp"
#include "tessera/graph.hpp"

namespace tessera {

/// Marks the phases of captured ranges (PhaseInfo::graph). Throws Error where a range does not
/// exist, overlaps another, or has a phase that cannot be captured.
void mark_captured(std::vector<PhaseInfo>& phases, std::span<const CapturedRange> ranges);

/// Does the plan have phases of captured ranges?
bool has_captured(const Plan& plan);

/// A captured range in a plan.
struct Segment {
  CapturedRange range;
  int first = 0, last = 0;  ///< phases within the plan, inclusive
  bool split = false;       ///< the plan splits the halves of its chunk's backward passes
  bool recompute = false;   ///< its phases drop their activations and run again
  /// Forward, recomputation, and the backward pass or both halves of it.
  int graphs() const { return 2 + (split ? 1 : 0) + (recompute ? 1 : 0); }
};

/// Hands out numbers: the free one that was given back first, or a new one where none is free.
class SlotQueue {
 public:
  int take();
  void give_back(int slot) { free_.push_back(slot); }
  /// How many there are.
  int count() const { return count_; }

 private:
  std::deque<int> free_;
  int count_ = 0;
};

/// Which graphs a plan replays in which slots. A microbatch takes a slot of its chunk with its
/// first forward and gives it back after its last backward, so a chunk needs as many slots as
/// microbatches of it are live at once, however many there are.
struct GraphPlan {
  std::vector<Segment> segments;     ///< in the order of their phases
  std::vector<int> slots;            ///< by chunk; 0 where nothing of it is captured
  std::vector<std::vector<int>> of;  ///< slot of each microbatch, by chunk
  int live_pairs = 0;                ///< most (microbatch, chunk) that are live at once

  /// 2 · Σ over chunks of segments · slots; more where halves are split or phases recomputed.
  int graphs() const;
  int slots_of(const Segment& segment) const {
    return slots[static_cast<std::size_t>(segment.range.chunk)];
  }
};
/// Plans the graphs of a plan whose phases are marked.
GraphPlan plan_graphs(const Plan& plan);

/// The graphs of a segment's slot that one action replays: `count`, from its graph `first` on.
struct Replays {
  std::size_t segment = 0;
  int slot = 0;
  int first = 0, count = 0;
};
/// `count` is 0 where the action's phase is not captured, or runs with another action of its range.
Replays replays_of(const Plan& plan, const GraphPlan& graphs, const PlanAction& action);
/// All replays of a plan, for its trace.
std::vector<TracedReplay> traced_replays(const Plan& plan);

/// Where the tensors of a message lie while it is sent.
enum class Sent : u8 {
  copied,    ///< in memory of their own, which they were copied to first
  in_place,  ///< in the slot that they were computed in
};
/// What the graphs of a segment's slot write, in the order of their replay.
using SlotMemory = std::function<std::span<const GraphMemory>(std::size_t segment, int slot)>;

/// Plays a plan's replays and messages over recorded addresses. Throws Error where a graph writes
/// what is still to be read, or a slot takes a microbatch before the one that it holds is done.
void check_memory(const Plan& plan,
                  const GraphPlan& graphs,
                  const SlotMemory& memory,
                  Sent sent = Sent::copied);

}  // namespace tessera
