#include "kernel/graph/slot_graphs.hpp"

#include <utility>

#include "kernel/graph/slot_pool.hpp"
#include "tessera/ops.hpp"

namespace tessera {

// One slot: fixed memory for one microbatch, and the graphs that work on it. Declared so that
// tensors go before the pools they came from.
struct SlotGraphs::Held {
  Held(Bundle in, Bundle out) : inputs(std::move(in)), results(std::move(out)) {}

  std::unique_ptr<Arena> arena;
  std::unique_ptr<SlotPool> pool;
  Bundle inputs, results;                                 // at fixed addresses
  std::vector<Tensor> output_gradients, input_gradients;  // by bundle slot, likewise
  Tape::FrameId frame = 0;
  std::vector<Var> leaves, outputs;  // of the frame, by bundle slot
  std::unique_ptr<Graph> forward, backward;
  GraphMemory forward_memory, backward_memory;
};

namespace {

// Memory that stays for the whole run, zero at first.
Tensor fixed(Context& cx, const Tensor& like) {
  Tensor made = Tensor::allocate(
      *cx.device, cx.device->pool(), *cx.stream, like.shape(), like.dtype(), Category::graph);
  FillArgs zero{made.arg(), 0};
  ops::run(cx, zero);
  return made;
}

void copy_to(Context& cx, const Tensor& from, const Tensor& to) {
  CopyArgs args{from.arg(), to.arg()};
  if (args.x.address != args.out.address) ops::run(cx, args);
}

AddressRange range_of(const Tensor& tensor) { return {tensor.arg().address, tensor.bytes()}; }

// Gradients that a warm-up may add to.
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

}  // namespace

SlotGraphs::SlotGraphs(const Context& cx, SegmentSpec spec, const Bundle& example, int slots)
    : cx_(cx), spec_(std::move(spec)), empty_(example) {
  require(slots >= 1, "\"{}\" is captured for {} slots", spec_.name, slots);
  require(cx.tape != nullptr, "\"{}\" is captured without a tape", spec_.name);
  for (const Phase* phase : spec_.phases) {
    require(phase->shapes == Shapes::fixed,
            "\"{}\" cannot be captured: the shapes of its phase \"{}\" depend on data",
            spec_.name,
            phase->scope);
  }
  for (Tensor& tensor : empty_.tensors()) tensor = {};
  for (int i = 0; i < slots; ++i) {
    auto held = std::make_unique<Held>(example, empty_);
    for (Tensor& input : held->inputs.tensors()) {
      if (input.defined()) input = fixed(cx_, input);
    }
    slots_.push_back(std::move(held));
  }
  warm_up(example);
}

SlotGraphs::~SlotGraphs() = default;

SlotGraphs::Held& SlotGraphs::held(int slot) const {
  return *slots_.at(static_cast<std::size_t>(slot));
}

void SlotGraphs::record_forward(Context& cx, Held& held) {
  Bundle bundle = held.inputs;
  std::vector<Tensor>& tensors = bundle.tensors();
  held.leaves.assign(tensors.size(), {});
  held.outputs.assign(tensors.size(), {});
  held.frame = cx.tape->begin();
  for (const Slot slot : spec_.differentiable) {
    bundle[slot] = cx.tape->leaf(bundle[slot]);
    held.leaves[static_cast<std::size_t>(slot.index)] = bundle[slot].var();
  }
  for (const Phase* phase : spec_.phases) phase->run(cx, bundle);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    if (cx.tape->tracks(tensors[i])) held.outputs[i] = tensors[i].var();
    tensors[i] = tensors[i].with_var({});
  }
  cx.tape->end();
  held.results = std::move(bundle);
}

void SlotGraphs::record_backward(Context& cx, Held& held) {
  std::vector<Tape::Seed> seeds;
  std::vector<Var> into;
  for (std::size_t i = 0; i < held.outputs.size(); ++i) {
    if (held.outputs[i]) seeds.push_back({held.outputs[i], held.output_gradients[i]});
    if (held.leaves[i]) into.push_back(held.leaves[i]);
  }
  std::vector<Tape::Result> results = cx.tape->backward(cx, held.frame, Half::both, seeds, into);
  held.input_gradients.assign(held.outputs.size(), {});
  auto result = results.begin();
  for (std::size_t i = 0; i < held.leaves.size(); ++i) {
    if (!held.leaves[i]) continue;
    result->pending.wait(*cx.stream);
    held.input_gradients[i] = std::move(result++->gradient);
  }
  cx.tape->release(held.frame);
}

void SlotGraphs::warm_up(const Bundle& example) {
  Held& first = *slots_.front();
  Context cx = cx_;
  const BorrowedGradients borrowed(cx, spec_.parameters);
  Bundle values = example;
  for (std::size_t i = 0; i < values.tensors().size(); ++i) {
    const Tensor& value = values.tensors()[i];
    if (value.defined()) copy_to(cx, value, first.inputs.tensors()[i]);
  }
  LifetimeRecorder recorder(cx.device->pool());
  cx.pool = &recorder;
  record_forward(cx, first);
  recorder.end_segment();
  Context plain = cx_;
  for (const auto& held : slots_) {
    held->output_gradients.assign(first.outputs.size(), {});
    for (std::size_t i = 0; i < first.outputs.size(); ++i) {
      if (first.outputs[i]) {
        held->output_gradients[i] = fixed(plain, first.results.tensors()[i]);
      }
    }
  }
  record_backward(cx, first);
  recorder.end_segment();
  lifetimes_ = recorder.lifetimes();
  first.results = empty_;
  first.input_gradients.clear();
}

std::unique_ptr<Graph> SlotGraphs::captured(const std::function<void()>& record) {
  Device& device = *cx_.device;
  device.begin_capture(*cx_.stream);
  try {
    record();
    return device.end_capture(*cx_.stream);
  } catch (...) {
    device.abort_capture();
    throw;
  }
}

void SlotGraphs::capture(Arena& scratch) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Held& held = *slots_[i];
    Context cx = cx_;
    held.arena = std::make_unique<Arena>(cx.device->pool(), lifetimes_.kept_bytes, *cx.stream);
    held.pool = std::make_unique<SlotPool>(lifetimes_, *held.arena, scratch);
    cx.pool = held.pool.get();
    const std::string slot = fmt::format("{} slot {}", spec_.name, i);
    const auto memory = [&](bool backward) {
      GraphMemory made = held.pool->end_segment();
      made.name = fmt::format("{} {}", slot, backward ? "backward" : "forward");
      made.slot = slot;
      made.backward = backward;
      return made;
    };
    held.forward = captured([&] { record_forward(cx, held); });
    held.forward_memory = memory(false);
    held.backward = captured([&] { record_backward(cx, held); });
    held.backward_memory = memory(true);
    // Written around the graphs, and the slot's for as long.
    for (const std::vector<Tensor>* tensors : {&held.inputs.tensors(), &held.output_gradients}) {
      for (const Tensor& tensor : *tensors) {
        if (tensor.defined()) held.forward_memory.kept.push_back(range_of(tensor));
      }
    }
  }
}

void SlotGraphs::forward(Context& cx, int slot, Bundle& bundle) {
  Held& h = held(slot);
  require(h.forward != nullptr, "\"{}\" is not captured yet", spec_.name);
  std::vector<Tensor>& tensors = bundle.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& to = h.inputs.tensors()[i];
    if (!to.defined()) continue;
    require(tensors[i].defined() && tensors[i].shape() == to.shape() &&
                tensors[i].dtype() == to.dtype(),
            "\"{}\" was captured for an input {}, not {}",
            spec_.name,
            to,
            tensors[i]);
    copy_to(cx, tensors[i], to);
  }
  cx.device->replay(*h.forward, *cx.stream);
  tensors = h.results.tensors();
}

std::vector<Tensor> SlotGraphs::backward(Context& cx,
                                         int slot,
                                         const std::vector<Tensor>& gradients) {
  Held& h = held(slot);
  require(h.backward != nullptr, "\"{}\" is not captured yet", spec_.name);
  for (std::size_t i = 0; i < h.output_gradients.size(); ++i) {
    const Tensor& to = h.output_gradients[i];
    if (!to.defined()) continue;
    if (gradients.at(i).defined()) {
      copy_to(cx, gradients[i], to);
    } else {
      FillArgs zero{to.arg(), 0};
      ops::run(cx, zero);
    }
  }
  cx.device->replay(*h.backward, *cx.stream);
  return h.input_gradients;
}

const GraphMemory& SlotGraphs::forward_memory(int slot) const { return held(slot).forward_memory; }
const GraphMemory& SlotGraphs::backward_memory(int slot) const {
  return held(slot).backward_memory;
}

}  // namespace tessera
