#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernel/graph/lifetimes.hpp"
#include "kernel/graph/live_memory.hpp"
#include "kernel/graph/phase_frame.hpp"
#include "kernel/graph/slot_pool.hpp"
#include "sdk/src/shared/arena.hpp"
#include "tessera/parameter.hpp"

namespace tessera {

/// A captured range of one chunk, as it is run.
struct CapturedPhases {
  std::string name;                    ///< for errors: "layers.0"
  std::span<const Phase> phases;       ///< of fixed shapes; outlive the slots
  std::vector<Parameter*> parameters;  ///< that the phases add gradients to
  bool split_halves = false;           ///< one graph for each half of the backward pass
  bool recompute = false;  ///< activations are dropped, and one more graph computes them again
  /// By bundle slot: do the phases read what they find there? All of it where this is empty.
  std::vector<bool> reads = {};
  std::vector<std::string> layers = {};  ///< of each phase, for errors; may be empty
  std::vector<Tensor> written = {};      ///< buffers that the phases write
  bool keep_boundaries = false;          ///< results of each phase stay in the slot: for checks
  /// Where the policy that chose them is configured, before an error: "run.toml:12:8: [graph] ".
  std::string chosen = {};
};

/// The graph slots of one captured range. Each has fixed memory for one microbatch and graphs of
/// its own, so slots are replayed in any order that a plan gives, not in the order of their
/// capture.
class GraphSlots {
 public:
  /// Runs the range once, forward and backward, without capturing: libraries set themselves up and
  /// the lifetimes of all memory are measured. `example` is the bundle as the first phase finds it,
  /// in shapes and dtypes; inputs that need a gradient, see PhaseFrame, get one. Gradients of
  /// parameters have to be zero and are so afterwards; buffers keep their values; losses and
  /// metrics go to `warm_up`, or to the context's sink where it is missing.
  GraphSlots(const Context& cx,
             CapturedPhases range,
             const Bundle& example,
             int slots,
             StepSink* warm_up = nullptr);
  ~GraphSlots();
  GraphSlots(const GraphSlots&) = delete;
  GraphSlots& operator=(const GraphSlots&) = delete;

  int count() const { return static_cast<int>(frames_.size()); }
  const CapturedPhases& range() const { return range_; }
  const Lifetimes& lifetimes() const { return lifetimes_; }
  /// What this range needs of the scratch arena that all graphs of a stream share.
  i64 scratch_bytes() const { return lifetimes_.bytes(Lifetime::graph); }
  /// Captures all slots. The arenas outlive this object.
  void capture(Arena& scratch, Arena* recomputed = nullptr);

  /// The same in two parts, for slots of ranges that follow each other. `resident`, by bundle slot:
  /// what already lies at a fixed address of the same graph slot, so that it is not copied: inputs,
  /// or gradients of the results. Forward leaves results(), backward input_gradients().
  void capture_forward(int slot, const std::vector<Tensor>& resident, const SlotArenas& shared);
  void capture_backward(int slot, const std::vector<Tensor>& resident);
  /// Drops all tensors. Slots of other ranges may hold some of this one's memory, so empty all of
  /// them before the first is destroyed.
  void drop();
  /// Results by bundle slot; undefined where the range leaves what it found.
  std::vector<Tensor> results(int slot) const;
  const std::vector<Tensor>& input_gradients(int slot) const;

  /// The slot as the frame of the microbatch that it holds. Its graphs are replayed in turn only:
  /// forward, then backward, or input half and weight half. What forward leaves in the bundle, and
  /// backward in the gradients, lies in the slot until its next forward. That comes after the
  /// microbatch's last backward in the chunk, because eager frames read it up to there.
  PhaseFrame& frame(int slot);
  /// What the slot's graphs write, in the order of their replay.
  std::span<const GraphMemory> memory(int slot) const;
  /// Operations, host tasks and copies in all graphs of one slot.
  i64 launches() const;
  /// Total bytes: inputs copied before replays; the slots' arenas.
  i64 input_bytes() const;
  i64 slot_bytes() const;
  /// What slot `slot` has in its bundle after phase `phase` of the range, with keep_boundaries.
  const std::vector<Tensor>& after_phase(int slot, std::size_t phase) const;
  /// What the slot's phases read, and what the gradients of its results are.
  const std::vector<Tensor>& inputs(int slot) const;
  const std::vector<Tensor>& output_gradients(int slot) const;

 private:
  class ReplayedFrame;
  ReplayedFrame& at(int slot) const { return *frames_.at(static_cast<std::size_t>(slot)); }

  Context cx_;
  CapturedPhases range_;
  Lifetimes lifetimes_;
  std::vector<std::unique_ptr<ReplayedFrame>> frames_;
};

}  // namespace tessera
