#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernel/graph/graph_slots.hpp"

namespace tessera {

/// One graph slot of a captured range. Members are in an order that destroys tensors before the
/// pools that they came from.
class GraphSlots::ReplayedFrame final : public PhaseFrame {
 public:
  ReplayedFrame(Context& cx, const CapturedPhases& range, int number, const Bundle& example);

  /// Runs what will be captured, on memory that is given back. `left`: what it has read back.
  Lifetimes warm_up(StepSink* sink, Bundle& left);
  /// Reserves host memory for the same.
  void reserve(const Bundle& left) { inputs_.reserve_read_back(*cx_.device, left); }
  void capture_forward(const std::vector<Tensor>& resident,
                       const Lifetimes& lifetimes,
                       const SlotArenas& shared);
  void capture_backward(const std::vector<Tensor>& resident);

  void drop();

  void forward(Context& cx, Bundle& bundle) override;
  void arrive(Context& cx, SlotGradients& gradients) override;
  void backward(Context& cx, Half half, SlotGradients& gradients) override;
  void release(Context& cx) override;

  const std::vector<GraphMemory>& memory() const { return memory_; }
  std::vector<Tensor> results() const;
  const std::vector<Tensor>& inputs() const { return inputs_.tensors(); }
  const std::vector<Tensor>& output_gradients() const { return output_gradients_; }
  const std::vector<Tensor>& input_gradients() const { return input_gradients_; }
  const std::vector<Tensor>& after_phase(std::size_t phase) const { return boundaries_.at(phase); }
  i64 launches() const;
  i64 input_bytes() const { return input_bytes_; }
  i64 slot_bytes() const { return arena_ != nullptr ? arena_->bytes() : 0; }

 private:
  // Where a bundle slot's value is when a graph reads it.
  enum class Place : u8 {
    none,      ///< nowhere: the bundle slot is empty
    copied,    ///< in memory of this frame, which a copy before the graph writes
    resident,  ///< where an earlier frame of the graph slot left it
    passed,    ///< nobody reads it; it goes on as it is
  };
  enum class Part : u8 { forward, recompute, backward, input_half, weight_half };
  static std::string_view text(Part part);

  void place_inputs(const std::vector<Tensor>& resident);
  void place_output_gradients(const std::vector<Tensor>& resident);
  Tensor fixed(const Tensor& like);
  void load(Context& cx, const Bundle& bundle);
  void run_forward(Context& cx, Bundle& bundle, bool keep);
  void record(Context& cx, Part part);
  void capture(Part part);
  void begin(Context& cx, Pool& pool, StepSink* sink);
  void end();
  void forget();
  bool passes(std::size_t slot) const;
  std::string slot_text() const;
  void expect(std::size_t graph) const;
  void replay(Context& cx);

  Context& cx_;
  const CapturedPhases& range_;
  const int number_;
  std::vector<Part> parts_;  // what each graph does
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<SlotPool> pool_;
  std::unique_ptr<Tape> tape_;  // while recording
  Context recording_;
  EagerFrames frames_;                                      // of the range, likewise
  std::vector<Place> places_;                               // by bundle slot
  Bundle inputs_, results_{0, 0};                           // at fixed addresses
  std::vector<Tensor> output_gradients_, input_gradients_;  // by bundle slot, likewise
  std::vector<Tensor> own_gradients_;                       // of output_gradients_, not resident
  std::vector<std::vector<Tensor>> boundaries_;             // bundle after each phase
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::vector<GraphMemory> memory_;
  i64 input_bytes_ = 0;
  std::size_t next_ = 0;  // the graph that is replayed next
};

}  // namespace tessera
