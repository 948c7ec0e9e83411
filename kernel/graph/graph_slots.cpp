#include "kernel/graph/graph_slots.hpp"

#include <utility>

#include "kernel/graph/slot_pool.hpp"
#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

void copy_to(Context& cx, const Tensor& from, const Tensor& to) {
  CopyArgs args{from.arg(), to.arg()};
  if (args.x.address != args.out.address) ops::run(cx, args);
}

void fill_zero(Context& cx, const Tensor& tensor) {
  FillArgs args{tensor.arg(), 0};
  ops::run(cx, args);
}

// Memory that is written around the graphs, zero at first.
Tensor fixed(Context& cx, const Tensor& like) {
  Tensor made = Tensor::allocate(
      *cx.device, cx.device->pool(), *cx.stream, like.shape(), like.dtype(), Category::graph);
  fill_zero(cx, made);
  return made;
}

Tensor marked(const Tensor& tensor, bool needs_gradient) {
  return tensor.with_var(tensor.defined() && needs_gradient ? kNeedsGradient : Var());
}

// Gradients that a warm-up may add to, in place of the parameters' own.
class BorrowedGradients {
 public:
  BorrowedGradients(Context& cx, const std::vector<Parameter*>& parameters)
      : parameters_(parameters) {
    for (Parameter* parameter : parameters_) {
      kept_.push_back(std::exchange(parameter->grad, fixed(cx, parameter->grad)));
    }
  }
  ~BorrowedGradients() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i]->grad = std::move(kept_[i]);
  }
  BorrowedGradients(const BorrowedGradients&) = delete;
  BorrowedGradients& operator=(const BorrowedGradients&) = delete;

 private:
  const std::vector<Parameter*>& parameters_;
  std::vector<Tensor> kept_;
};

std::unique_ptr<Graph> captured(Context& cx, const std::function<void()>& record) {
  cx.device->begin_capture(*cx.stream);
  try {
    record();
    return cx.device->end_capture(*cx.stream);
  } catch (...) {
    cx.device->abort_capture();
    throw;
  }
}

}  // namespace

// One slot. Members are declared so that tensors go before the pools they came from.
class GraphSlots::ReplayedFrame final : public PhaseFrame {
 public:
  ReplayedFrame(Context& cx, const CapturedPhases& range, const Bundle& example);
  Lifetimes warm_up(const Bundle& example);
  void capture(const std::string& slot, const Lifetimes& lifetimes, Arena& scratch);
  const std::vector<GraphMemory>& memory() const { return memory_; }

  void forward(Context& cx, Bundle& bundle) override;
  void backward(Context& cx, Half half, SlotGradients& gradients) override;
  void release(Context& cx) override;

 private:
  void load(Context& cx, const std::vector<Tensor>& from);
  using Record = std::function<void(Context& cx, std::size_t graph)>;
  void record_all(Pool& pool, const Record& record_one);
  void record(Context& cx, std::size_t graph);
  void make_output_gradients();
  void forget();
  void expect(std::size_t graph) const;
  void replay(Context& cx);

  Context& cx_;
  const CapturedPhases& range_;
  const std::vector<std::string> parts_;  // what each graph does
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<SlotPool> pool_;
  Bundle inputs_, results_{0, 0};                           // at fixed addresses
  std::vector<Tensor> output_gradients_, input_gradients_;  // by bundle slot, likewise
  EagerFrame eager_;                                        // what is captured
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::vector<GraphMemory> memory_;
  std::size_t next_ = 0;  // the graph that is replayed next
};

GraphSlots::ReplayedFrame::ReplayedFrame(Context& cx,
                                         const CapturedPhases& range,
                                         const Bundle& example)
    : cx_(cx),
      range_(range),
      parts_(range.split_halves ? std::vector<std::string>{"forward", "input half", "weight half"}
                                : std::vector<std::string>{"forward", "backward"}),
      inputs_(example),
      eager_(range.phases) {
  for (Tensor& input : inputs_.tensors()) {
    if (input.defined()) input = marked(fixed(cx_, input), bool(input.var()));
  }
}

void GraphSlots::ReplayedFrame::load(Context& cx, const std::vector<Tensor>& from) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Tensor& to = inputs_.tensors()[i];
    require(from[i].shape() == to.shape() && from[i].dtype() == to.dtype() &&
                from[i].defined() == to.defined(),
            "\"{}\" was captured for an input {}, not {}",
            range_.name,
            to,
            from[i]);
    require(!from[i].var() || to.var(),
            "\"{}\" was captured without a gradient of its input {}, which needs one",
            range_.name,
            to);
    if (to.defined()) copy_to(cx, from[i], to);
  }
}

// What a graph does, run as it is or captured.
void GraphSlots::ReplayedFrame::record(Context& cx, std::size_t graph) {
  if (graph == 0) {
    results_ = inputs_;
    eager_.forward(cx, results_);
    for (Tensor& result : results_.tensors()) result = marked(result, bool(result.var()));
    return;
  }
  const Half half = !range_.split_halves ? Half::both : graph == 1 ? Half::input : Half::weight;
  SlotGradients gradients = Tape::gradients(output_gradients_);
  eager_.backward(cx, half, gradients);
  if (half == Half::weight) return;
  if (half == Half::input) cx.tape->wait(cx, eager_.frame());
  input_gradients_.clear();
  for (Tape::Gradient& gradient : gradients) {
    gradient.pending.wait(*cx.stream);
    input_gradients_.push_back(std::move(gradient.tensor));
  }
}

void GraphSlots::ReplayedFrame::make_output_gradients() {
  output_gradients_.clear();
  for (const Tensor& result : results_.tensors()) {
    output_gradients_.push_back(result.var() ? fixed(cx_, result) : Tensor());
  }
}

// On a tape of its own. Where it fails, nothing of it stays in the pool.
void GraphSlots::ReplayedFrame::record_all(Pool& pool, const Record& record_one) {
  Tape tape;
  Context cx = cx_;
  cx.tape = &tape;
  cx.pool = &pool;
  try {
    for (std::size_t graph = 0; graph < parts_.size(); ++graph) {
      record_one(cx, graph);
      if (graph == 0) make_output_gradients();
    }
  } catch (...) {
    forget();
    throw;
  }
}

void GraphSlots::ReplayedFrame::forget() {
  results_ = Bundle(0, 0);
  input_gradients_.clear();
}

Lifetimes GraphSlots::ReplayedFrame::warm_up(const Bundle& example) {
  const BorrowedGradients borrowed(cx_, range_.parameters);
  load(cx_, Bundle(example).tensors());
  LifetimeRecorder recorder(cx_.device->pool());
  record_all(recorder, [&](Context& cx, std::size_t graph) {
    record(cx, graph);
    recorder.keep_live();
  });
  forget();
  return recorder.lifetimes();
}

void GraphSlots::ReplayedFrame::capture(const std::string& slot,
                                        const Lifetimes& lifetimes,
                                        Arena& scratch) {
  arena_ = std::make_unique<Arena>(cx_.device->pool(), lifetimes.kept_bytes, *cx_.stream);
  pool_ = std::make_unique<SlotPool>(lifetimes, *arena_, scratch);
  record_all(*pool_, [&](Context& cx, std::size_t graph) {
    graphs_.push_back(captured(cx, [&] { record(cx, graph); }));
    GraphMemory& memory = memory_.emplace_back(pool_->end_graph());
    memory.name = fmt::format("{} {}", slot, parts_[graph]);
    memory.slot = slot;
    memory.index = static_cast<int>(graph);
    memory.last = graph + 1 == parts_.size();
  });
  // Written around the graphs, and the slot's for as long.
  const auto keep = [&](const Tensor& tensor) {
    if (tensor.defined()) memory_[0].kept.push_back({tensor.arg().address, tensor.bytes()});
  };
  for (const Tensor& input : inputs_.tensors()) keep(input);
  for (const Tensor& gradient : output_gradients_) keep(gradient);
}

void GraphSlots::ReplayedFrame::expect(std::size_t graph) const {
  require(!graphs_.empty(), "\"{}\" is not captured yet", range_.name);
  require(graph == next_,
          "graph \"{}\" is out of turn: its slot waits for \"{}\"",
          memory_[graph].name,
          memory_[next_].name);
}

void GraphSlots::ReplayedFrame::replay(Context& cx) {
  cx.device->replay(*graphs_[next_], *cx.stream);
  next_ = (next_ + 1) % graphs_.size();
}

void GraphSlots::ReplayedFrame::forward(Context& cx, Bundle& bundle) {
  expect(0);
  load(cx, bundle.tensors());
  replay(cx);
  bundle.tensors() = results_.tensors();
}

void GraphSlots::ReplayedFrame::backward(Context& cx, Half half, SlotGradients& gradients) {
  require(half == Half::both || range_.split_halves,
          "\"{}\" is captured with both halves of its backward pass in one graph",
          range_.name);
  expect(half == Half::weight ? 2 : 1);
  if (half != Half::weight) {
    for (std::size_t i = 0; i < output_gradients_.size(); ++i) {
      const Tensor& to = output_gradients_[i];
      if (!to.defined()) continue;
      Tape::Gradient& from = gradients.at(i);
      from.pending.wait(*cx.stream);
      from.tensor.defined() ? copy_to(cx, from.tensor, to) : fill_zero(cx, to);
    }
    replay(cx);
    gradients = Tape::gradients(input_gradients_);
  }
  if (range_.split_halves && half != Half::input) replay(cx);
}

void GraphSlots::ReplayedFrame::release(Context&) {
  fail("\"{}\" is captured: its activations stay in its graph slot and are not recomputed",
       range_.name);
}

GraphSlots::GraphSlots(const Context& cx, CapturedPhases range, const Bundle& example, int slots)
    : cx_(cx), range_(std::move(range)) {
  require(slots >= 1, "\"{}\" is captured for {} graph slots", range_.name, slots);
  for (const Phase& phase : range_.phases) {
    require(phase.shapes == Shapes::fixed,
            "\"{}\" cannot be captured: the shapes of its phase \"{}\" depend on data",
            range_.name,
            phase.scope);
    require(phase.reads.empty(),
            "\"{}\" cannot be captured: its phase \"{}\" reads integers back to the host",
            range_.name,
            phase.scope);
  }
  for (int i = 0; i < slots; ++i) {
    frames_.push_back(std::make_unique<ReplayedFrame>(cx_, range_, example));
  }
  lifetimes_ = frames_.front()->warm_up(example);
}

GraphSlots::~GraphSlots() = default;

void GraphSlots::capture(Arena& scratch) {
  for (std::size_t i = 0; i < frames_.size(); ++i) {
    frames_[i]->capture(fmt::format("{} slot {}", range_.name, i), lifetimes_, scratch);
  }
}

PhaseFrame& GraphSlots::frame(int slot) { return *frames_.at(static_cast<std::size_t>(slot)); }

std::span<const GraphMemory> GraphSlots::memory(int slot) const {
  return frames_.at(static_cast<std::size_t>(slot))->memory();
}

}  // namespace tessera
