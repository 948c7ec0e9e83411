#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernel/graph/lifetimes.hpp"
#include "kernel/graph/live_memory.hpp"
#include "kernel/graph/phase_frame.hpp"
#include "tessera/arena.hpp"
#include "tessera/parameter.hpp"

namespace tessera {

/// A captured range of one chunk, as it is run.
struct CapturedPhases {
  std::string name;                    ///< for errors: "layers.0"
  std::span<const Phase> phases;       ///< of fixed shapes; outlive the slots
  std::vector<Parameter*> parameters;  ///< that the phases add gradients to
  bool split_halves = false;           ///< one graph for each half of the backward pass
};

/// The graph slots of one captured range. Each has fixed memory for one microbatch and graphs of
/// its own, so slots are replayed in any order that a plan gives, not in the order of their
/// capture.
class GraphSlots {
 public:
  /// Runs the range once, forward and backward, without capturing: libraries set themselves up and
  /// the lifetimes of all memory are measured. `example` is the bundle as the first phase finds it:
  /// what it holds are the inputs; those that need a gradient, see PhaseFrame, get one. The
  /// parameters' gradients are left alone; losses and metrics are counted by the context's sink.
  GraphSlots(const Context& cx, CapturedPhases range, const Bundle& example, int slots);
  ~GraphSlots();
  GraphSlots(const GraphSlots&) = delete;
  GraphSlots& operator=(const GraphSlots&) = delete;

  /// What this range needs of the scratch arena that all graphs of a stream share.
  i64 scratch_bytes() const { return lifetimes_.scratch_bytes; }
  /// Captures all slots. `scratch` outlives this object.
  void capture(Arena& scratch);

  /// The slot as the frame of the microbatch that it holds. Its graphs are replayed in turn only:
  /// forward, then backward, or input half and weight half. What forward leaves in the bundle, and
  /// backward in the gradients, lies in the slot until its next forward. That comes after the
  /// microbatch's last backward in the chunk, because eager frames read it up to there.
  PhaseFrame& frame(int slot);
  /// What the slot's graphs write, in the order of their replay.
  std::span<const GraphMemory> memory(int slot) const;

 private:
  class ReplayedFrame;

  Context cx_;
  CapturedPhases range_;
  Lifetimes lifetimes_;
  std::vector<std::unique_ptr<ReplayedFrame>> frames_;
};

}  // namespace tessera
