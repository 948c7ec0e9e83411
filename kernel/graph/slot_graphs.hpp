#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernel/graph/lifetimes.hpp"
#include "kernel/graph/live_memory.hpp"
#include "tessera/arena.hpp"
#include "tessera/layer.hpp"
#include "tessera/parameter.hpp"

namespace tessera {

/// A run of consecutive phases of one chunk that becomes one graph forward and one backward.
struct SegmentSpec {
  std::string name;                    ///< for errors: "layers.0"
  std::vector<const Phase*> phases;    ///< of fixed shapes
  std::vector<Parameter*> parameters;  ///< that the phases add gradients to
  std::vector<Slot> differentiable;    ///< inputs whose gradients are wanted
};

/// The graphs of one segment, for a number of slots. A slot holds one microbatch from its forward
/// to its backward, so slots are replayed in any order that a plan gives, not in the order of their
/// capture. Addresses follow lifetimes: inputs, results and what the backward pass reads lie in the
/// slot's own memory; what dies inside a graph in an arena that all graphs of a stream share.
class SlotGraphs {
 public:
  /// Runs the segment once, forward and backward, without capturing: libraries set themselves up
  /// and the lifetimes of all memory are measured. `example` is the bundle as the first phase finds
  /// it: its tensors are the inputs. The parameters' gradients are left alone; losses and metrics
  /// that the phases report are counted by the context's sink.
  SlotGraphs(const Context& cx, SegmentSpec spec, const Bundle& example, int slots);
  ~SlotGraphs();
  SlotGraphs(const SlotGraphs&) = delete;
  SlotGraphs& operator=(const SlotGraphs&) = delete;

  /// What this segment needs of the shared arena.
  i64 scratch_bytes() const { return lifetimes_.scratch_bytes; }
  /// Captures all slots. `scratch` outlives this object.
  void capture(Arena& scratch);

  /// Copies the bundle's inputs to the slot's addresses, replays, and leaves the results in the
  /// bundle: the slot's own memory, valid until its next forward.
  void forward(Context& cx, int slot, Bundle& bundle);
  /// By bundle slot, gradients of the results; undefined ones count as zero. Returns, by bundle
  /// slot, those of the differentiable inputs, in the slot's own memory.
  std::vector<Tensor> backward(Context& cx, int slot, const std::vector<Tensor>& gradients);

  int slots() const { return static_cast<int>(slots_.size()); }
  /// What the graphs of a slot write, for LiveMemory.
  const GraphMemory& forward_memory(int slot) const;
  const GraphMemory& backward_memory(int slot) const;

 private:
  struct Held;
  void record_forward(Context& cx, Held& held);
  void record_backward(Context& cx, Held& held);
  void warm_up(const Bundle& example);
  std::unique_ptr<Graph> captured(const std::function<void()>& record);
  Held& held(int slot) const;

  Context cx_;
  SegmentSpec spec_;
  Bundle empty_;
  Lifetimes lifetimes_;
  std::vector<std::unique_ptr<Held>> slots_;
};

}  // namespace tessera
