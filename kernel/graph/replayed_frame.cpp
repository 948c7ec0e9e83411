#include "kernel/graph/replayed_frame.hpp"

#include <utility>

#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

void copy_to(Context& cx, const Tensor& from, const Tensor& to) {
  CopyArgs args{from.arg(), to.arg()};
  if (args.x.address != args.out.address) ops::run(cx, args);
}

void fill_zero(Context& cx, const Tensor& tensor) { ops::run(cx, FillArgs{tensor.arg(), 0}); }

Tensor zeros(Context& cx, const Tensor& like) {
  Tensor made = Tensor::allocate(
      *cx.device, cx.device->pool(), *cx.stream, like.shape(), like.dtype(), Category::graph);
  fill_zero(cx, made);
  return made;
}

Tensor marked(const Tensor& tensor, bool needs_gradient) {
  return tensor.with_var(tensor.defined() && needs_gradient ? kNeedsGradient : Var());
}

bool same_memory(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.arg().address == b.arg().address &&
         a.shape() == b.shape() && a.strides() == b.strides();
}

// Restores what a warm-up changes beyond its own memory; gradients are zero, as before.
class Untouched {
 public:
  Untouched(Context& cx, const CapturedPhases& range) : cx_(cx), range_(range) {
    for (const Tensor& buffer : range.written) {
      buffers_.push_back(zeros(cx, buffer));
      copy_to(cx, buffer, buffers_.back());
    }
  }
  ~Untouched() {
    for (const Parameter* parameter : range_.parameters) fill_zero(cx_, parameter->grad);
    for (std::size_t i = 0; i < buffers_.size(); ++i) copy_to(cx_, buffers_[i], range_.written[i]);
  }
  Untouched(const Untouched&) = delete;
  Untouched& operator=(const Untouched&) = delete;

 private:
  Context& cx_;
  const CapturedPhases& range_;
  std::vector<Tensor> buffers_;
};

}  // namespace

std::string_view GraphSlots::ReplayedFrame::text(Part part) {
  switch (part) {
    case Part::forward:
      return "forward";
    case Part::recompute:
      return "recompute";
    case Part::backward:
      return "backward";
    case Part::input_half:
      return "input half";
    case Part::weight_half:
      return "weight half";
  }
  return "";
}

GraphSlots::ReplayedFrame::ReplayedFrame(Context& cx,
                                         const CapturedPhases& range,
                                         int number,
                                         const Bundle& example)
    : cx_(cx), range_(range), number_(number), frames_(range.phases), inputs_(example) {
  parts_.push_back(Part::forward);
  if (range.recompute) parts_.push_back(Part::recompute);
  if (range.split_halves) {
    parts_.insert(parts_.end(), {Part::input_half, Part::weight_half});
  } else {
    parts_.push_back(Part::backward);
  }
  for (Tensor& input : inputs_.tensors()) input = marked(input, bool(input.var()));
}

std::string GraphSlots::ReplayedFrame::slot_text() const {
  return fmt::format("{} slot {}", range_.name, number_);
}

Tensor GraphSlots::ReplayedFrame::fixed(const Tensor& like) {
  Tensor made = zeros(cx_, like);
  input_bytes_ += made.bytes();
  return made;
}

// Before this call `inputs_` holds examples.
void GraphSlots::ReplayedFrame::place_inputs(const std::vector<Tensor>& resident) {
  places_.assign(inputs_.tensors().size(), Place::none);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Tensor& input = inputs_.tensors()[i];
    if (!input.defined()) continue;
    const bool wanted = bool(input.var());
    if (i < resident.size() && resident[i].defined()) {
      places_[i] = Place::resident;
      input = marked(resident[i], wanted);
    } else if (!range_.reads.empty() && !range_.reads[i]) {
      places_[i] = Place::passed;
      input = marked(input, false);
    } else {
      places_[i] = Place::copied;
      input = marked(fixed(input), wanted);
    }
  }
}

void GraphSlots::ReplayedFrame::place_output_gradients(const std::vector<Tensor>& resident) {
  output_gradients_.clear();
  for (std::size_t i = 0; i < results_.tensors().size(); ++i) {
    const Tensor& result = results_.tensors()[i];
    if (!result.var()) {
      output_gradients_.emplace_back();
    } else if (i < resident.size() && resident[i].defined()) {
      output_gradients_.push_back(resident[i]);
    } else {
      output_gradients_.push_back(own_gradients_.emplace_back(fixed(result)));
    }
  }
}

void GraphSlots::ReplayedFrame::run_forward(Context& cx, Bundle& bundle, bool keep) {
  for (std::size_t i = 0; i < frames_.size(); ++i) {
    try {
      frames_[i].forward(cx, bundle);
    } catch (const std::exception& error) {
      if (!cx.device->capturing() || i >= range_.layers.size()) throw;
      fail("{} {}, slot {}: {}", range_.layers[i], range_.phases[i].scope, number_, error.what());
    }
    if (keep) boundaries_.push_back(bundle.tensors());
  }
  bundle.arrive(*cx.stream);  // a graph waits for what it starts
}

// What a graph does, run as it is or captured.
void GraphSlots::ReplayedFrame::record(Context& cx, Part part) {
  if (part == Part::forward) {
    results_ = inputs_;
    run_forward(cx, results_, range_.keep_boundaries);
    for (Tensor& result : results_.tensors()) result = marked(result, bool(result.var()));
    for (auto& boundary : boundaries_) {
      for (Tensor& tensor : boundary) tensor = marked(tensor, false);
    }
    if (range_.recompute) frames_.release(cx);
    return;
  }
  if (part == Part::recompute) {
    Context again = cx;
    again.recomputing = true;
    Bundle bundle = inputs_;
    run_forward(again, bundle, false);
    return;
  }
  const Half half = part == Part::backward     ? Half::both
                    : part == Part::input_half ? Half::input
                                               : Half::weight;
  SlotGradients gradients = Tape::gradients(output_gradients_);
  frames_.backward(cx, half, gradients);
  if (half == Half::weight) return;
  if (half == Half::input) frames_.wait(cx);
  input_gradients_.clear();
  for (Tape::Gradient& gradient : gradients) {
    gradient.pending.wait(*cx.stream);
    input_gradients_.push_back(std::move(gradient.tensor));
  }
}

void GraphSlots::ReplayedFrame::begin(Context& cx, Pool& pool, StepSink* sink) {
  tape_ = std::make_unique<Tape>();
  recording_ = cx;
  recording_.tape = tape_.get();
  recording_.pool = &pool;
  recording_.sink = sink;
}

void GraphSlots::ReplayedFrame::end() {
  tape_.reset();
  recording_ = {};
}

// Where recording fails, nothing of it stays in the pool.
void GraphSlots::ReplayedFrame::forget() {
  results_ = Bundle(0, 0);
  boundaries_.clear();
  output_gradients_.clear();
  own_gradients_.clear();
  input_gradients_.clear();
  end();
}

void GraphSlots::ReplayedFrame::drop() {
  forget();
  inputs_ = Bundle(0, 0);
}

Lifetimes GraphSlots::ReplayedFrame::warm_up(StepSink* sink, Bundle& left) {
  const Untouched untouched(cx_, range_);
  const Bundle examples = inputs_;
  place_inputs({});
  LifetimeRecorder recorder(cx_.device->pool());
  begin(cx_, recorder, sink);
  try {
    for (const Part part : parts_) {
      record(recording_, part);
      const bool shared = part == Part::recompute && !range_.split_halves;
      recorder.end_graph(shared ? Lifetime::recomputed : Lifetime::slot);
      if (part == Part::forward) place_output_gradients({});
    }
  } catch (...) {
    forget();
    throw;
  }
  left = std::exchange(results_, Bundle(0, 0));
  left.tensors().clear();
  forget();
  inputs_ = examples;
  input_bytes_ = 0;
  return recorder.lifetimes();
}

void GraphSlots::ReplayedFrame::capture(Part part) {
  cx_.device->begin_capture(*cx_.stream);
  bool named = part == Part::forward;  // run_forward says which phase it was
  try {
    record(recording_, part);
    named = false;
    graphs_.push_back(cx_.device->end_capture(*cx_.stream));
  } catch (const std::exception& error) {
    cx_.device->abort_capture();
    forget();
    if (named) throw;
    fail("{} {}: {}", slot_text(), text(part), error.what());
  }
  GraphMemory& memory = memory_.emplace_back(pool_->end_graph());
  memory.name = fmt::format("{} {}", slot_text(), text(part));
  memory.slot = slot_text();
  memory.index = static_cast<int>(graphs_.size()) - 1;
  memory.last = graphs_.size() == parts_.size();
}

void GraphSlots::ReplayedFrame::capture_forward(const std::vector<Tensor>& resident,
                                                const Lifetimes& lifetimes,
                                                const SlotArenas& shared) {
  place_inputs(resident);
  arena_ =
      std::make_unique<Arena>(cx_.device->pool(), lifetimes.bytes(Lifetime::slot), *cx_.stream);
  SlotArenas arenas = shared;
  arenas.back() = arena_.get();
  pool_ = std::make_unique<SlotPool>(lifetimes, arenas);
  begin(cx_, *pool_, cx_.sink);
  capture(Part::forward);
  // Inputs are copied outside of the graphs, and live as long as the slot.
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Tensor& input = inputs_.tensors()[i];
    if (places_[i] == Place::copied) {
      memory_[0].kept.push_back({input.arg().address, input.bytes()});
    }
  }
}

void GraphSlots::ReplayedFrame::capture_backward(const std::vector<Tensor>& resident) {
  place_output_gradients(resident);
  for (std::size_t i = 1; i < parts_.size(); ++i) capture(parts_[i]);
  for (const Tensor& gradient : own_gradients_) {
    memory_[0].kept.push_back({gradient.arg().address, gradient.bytes()});
  }
  end();
}

std::vector<Tensor> GraphSlots::ReplayedFrame::results() const {
  std::vector<Tensor> left = results_.tensors();
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (passes(i)) left[i] = {};
  }
  return left;
}

// Does the range leave a bundle slot, and the gradient of what is there, as they are?
bool GraphSlots::ReplayedFrame::passes(std::size_t slot) const {
  return places_[slot] == Place::passed &&
         same_memory(results_.tensors()[slot], inputs_.tensors()[slot]);
}

i64 GraphSlots::ReplayedFrame::launches() const {
  i64 all = 0;
  for (const auto& graph : graphs_) all += graph->launches();
  return all;
}

void GraphSlots::ReplayedFrame::expect(std::size_t graph) const {
  require(graphs_.size() == parts_.size(), "\"{}\" is not captured yet", range_.name);
  require(graph == next_,
          "graph \"{}\" is out of turn: its slot waits for \"{}\"",
          memory_[graph].name,
          memory_[next_].name);
}

void GraphSlots::ReplayedFrame::replay(Context& cx) {
  cx.device->replay(*graphs_[next_], *cx.stream);
  next_ = (next_ + 1) % graphs_.size();
}

void GraphSlots::ReplayedFrame::load(Context& cx, const Bundle& bundle) {
  const std::vector<Tensor>& from = bundle.tensors();
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Tensor& to = inputs_.tensors()[i];
    require(from[i].shape() == to.shape() && from[i].dtype() == to.dtype() &&
                from[i].defined() == to.defined(),
            "{}\"{}\" was captured for an input {}, not {}{}",
            range_.chosen,
            range_.name,
            to,
            from[i],
            from[i].defined() && to.defined() ? "; a phase whose shapes change is Shapes::dynamic"
                                              : "");
    if (places_[i] == Place::none || places_[i] == Place::passed) continue;
    require(!from[i].var() || to.var(),
            "\"{}\" was captured without a gradient of its input {}, which needs one",
            range_.name,
            to);
    if (places_[i] == Place::copied) copy_to(cx, from[i], to);
    require(places_[i] == Place::copied || same_memory(from[i], to),
            "\"{}\" was captured for an input {} that an earlier graph of its slot leaves",
            range_.name,
            to);
  }
}

void GraphSlots::ReplayedFrame::forward(Context& cx, Bundle& bundle) {
  expect(0);
  bundle.arrive(*cx.stream);
  load(cx, bundle);
  replay(cx);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (!passes(i)) bundle.tensors()[i] = results_.tensors()[i];
  }
  bundle.replayed(*cx.stream, results_);
}

void GraphSlots::ReplayedFrame::arrive(Context& cx, SlotGradients& gradients) {
  for (std::size_t i = 0; i < output_gradients_.size(); ++i) {
    if (output_gradients_[i].defined()) gradients.at(i).pending.wait(*cx.stream);
  }
}

void GraphSlots::ReplayedFrame::backward(Context& cx, Half half, SlotGradients& gradients) {
  require(half == Half::both || range_.split_halves,
          "\"{}\" is captured with both halves of its backward pass in one graph",
          range_.name);
  expect(half == Half::weight ? parts_.size() - 1 : 1);
  if (half != Half::weight) {
    arrive(cx, gradients);
    for (std::size_t i = 0; i < output_gradients_.size(); ++i) {
      const Tensor& to = output_gradients_[i];
      if (!to.defined()) continue;
      const Tensor& from = gradients.at(i).tensor;
      from.defined() ? copy_to(cx, from, to) : fill_zero(cx, to);
    }
    if (range_.recompute) replay(cx);
    replay(cx);
    for (std::size_t i = 0; i < input_gradients_.size(); ++i) {
      if (!passes(i)) gradients[i] = {input_gradients_[i], {}};
    }
  }
  if (range_.split_halves && half != Half::input) replay(cx);
}

void GraphSlots::ReplayedFrame::release(Context&) {
  fail("\"{}\" is captured: its activations stay in its graph slot and are not recomputed",
       range_.name);
}

}  // namespace tessera
