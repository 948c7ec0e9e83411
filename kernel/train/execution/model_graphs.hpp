#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "kernel/dry/meta_device.hpp"
#include "kernel/graph/checked_frame.hpp"
#include "kernel/graph/graph_plan.hpp"
#include "kernel/graph/graph_slots.hpp"
#include "kernel/train/execution/bundle_trace.hpp"
#include "kernel/train/execution/graph_use.hpp"
#include "kernel/train/execution/live_chunk.hpp"

namespace tessera {

/// Throws Error where a group's collectives cannot be recorded. `policy`: the type of [graph].
void require_capturable(const Mesh& mesh, std::string_view policy);

/// The graphs of one rank's model: the captured ranges of its plan, each with graph slots.
class ModelGraphs {
 public:
  /// Warms all ranges up, captures them, and plays the plan over their memory. All ranks of a stage
  /// call it; model and plan outlive it. `cx`: as steps run with it.
  ModelGraphs(PlacedModel& model,
              const Plan& plan,
              const Context& cx,
              const std::vector<SampleReader::Input>& inputs);
  ModelGraphs(const ModelGraphs&) = delete;
  ModelGraphs& operator=(const ModelGraphs&) = delete;

  /// Lets a microbatch that begins in a chunk run in its graph slots.
  void attach(int microbatch, int chunk, LiveChunk& live);
  /// The first microbatch of each chunk of the next step runs both ways (CheckedFrame). For slots
  /// that were captured with check.graphs_every.
  void check_next();
  /// Does a tensor lie in a slot's memory, which the next microbatch overwrites?
  bool holds(const Tensor& tensor) const;

  /// Numbers without launches, which a dry step counts (graph_use_of).
  GraphUse use() const;
  const GraphPlan& plan() const { return graphs_; }
  /// What the graphs of a segment's slot write.
  std::span<const GraphMemory> memory(std::size_t segment, int slot) const {
    return slots_.at(segment)->memory(slot);
  }

 private:
  Bundle example(const TracedChunk& traced, int phase);
  CapturedPhases captured(const Segment& segment, const TracedChunk& traced) const;
  void warm_up(const std::vector<TracedChunk>& traced, const Mesh& mesh);
  void capture(const std::vector<TracedChunk>& traced);
  void capture_forward(int chunk, int slot, const TracedChunk& traced, const SlotArenas& shared);
  void capture_backward(int chunk, int slot);
  void list_ranges();
  std::vector<std::size_t> segments_of(int chunk) const;

  PlacedModel& model_;
  const RunSetup& setup_;
  const Plan& plan_;
  Context cx_;
  GraphPlan graphs_;
  MetaDevice blank_;  // of examples, which have shapes and no memory
  std::unique_ptr<Arena> scratch_, recomputed_;
  struct Slots : std::vector<std::unique_ptr<GraphSlots>> {
    ~Slots() {
      for (const auto& slots : *this) slots->drop();
    }
  };
  Slots slots_;                 // by segment
  std::vector<bool> to_check_;  // by chunk
  std::vector<std::unique_ptr<CheckedFrame>> checked_;
  std::vector<std::pair<const void*, const void*>> held_;  // memory of slots, in order
};

}  // namespace tessera
