#include "kernel/graph/checked_frame.hpp"

#include <algorithm>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

std::vector<std::byte> bytes_of(const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()));
  tensor.device().read(tensor, bytes.data());
  return bytes;
}

bool equal(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  return !a.defined() || (a.shape() == b.shape() && bytes_of(a) == bytes_of(b));
}

// Lets other tensors take the parameters' gradients, and gives their own back.
class OtherGradients {
 public:
  OtherGradients(const std::vector<Parameter*>& parameters, const std::vector<Tensor>& others)
      : parameters_(parameters) {
    for (std::size_t i = 0; i < others.size(); ++i) {
      own_.push_back(std::exchange(parameters_[i]->grad, others[i]));
    }
  }
  ~OtherGradients() {
    for (std::size_t i = 0; i < own_.size(); ++i) parameters_[i]->grad = own_[i];
  }
  OtherGradients(const OtherGradients&) = delete;
  OtherGradients& operator=(const OtherGradients&) = delete;

 private:
  const std::vector<Parameter*>& parameters_;
  std::vector<Tensor> own_;
};

}  // namespace

void CheckedFrame::differs(const std::string& what) const {
  fail(
      "{} differ between a replay and the phases as they run: what is captured must depend on "
      "its inputs alone, not on what the host keeps (check.graphs_every)",
      what);
}

// What the slot's graphs read, with what passes by.
Bundle CheckedFrame::inputs() const {
  Bundle bundle = found_;
  const std::vector<Tensor>& read = slots_.inputs(slot_);
  const std::vector<bool>& reads = slots_.range().reads;
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (reads.empty() || reads[i]) bundle.tensors()[i] = read[i];
  }
  return bundle;
}

void CheckedFrame::forward(Context& cx, Bundle& bundle) {
  bundle.arrive(*cx.stream);
  found_ = bundle;
  slots_.frame(slot_).forward(cx, bundle);
  Context again = cx;
  again.tape = nullptr;
  again.recomputing = true;
  Bundle eager = inputs();
  for (Tensor& tensor : eager.tensors()) tensor = tensor.with_var({});
  const CapturedPhases& range = slots_.range();
  for (std::size_t phase = 0; phase < range.phases.size(); ++phase) {
    run_phase(range.phases[phase], again, eager);
    eager.arrive(*again.stream);
    const std::vector<Tensor>& replayed = slots_.after_phase(slot_, phase);
    for (std::size_t i = 0; i < replayed.size(); ++i) {
      const bool passed = !range.reads.empty() && !range.reads[i];
      if (passed || equal(replayed[i], eager.tensors()[i])) continue;
      differs(fmt::format("{} {}, slot {}: \"{}\" ({})",
                          range.layers.at(phase),
                          range.phases[phase].scope,
                          slot_,
                          names_.at(i),
                          replayed[i]));
    }
  }
}

void CheckedFrame::backward(Context& cx, Half half, SlotGradients& gradients) {
  if (half == Half::input) return slots_.frame(slot_).backward(cx, half, gradients);
  std::vector<Tensor> sums;
  for (const Parameter* parameter : slots_.range().parameters) {
    sums.push_back(cx.empty(parameter->grad.shape(), parameter->grad.dtype()));
    CopyArgs copy{parameter->grad.arg(), sums.back().arg()};
    ops::run(cx, copy);
  }
  slots_.frame(slot_).backward(cx, half, gradients);
  compare_backward(cx, sums);
  found_ = Bundle(0, 0);
}

void CheckedFrame::compare_backward(Context& cx, const std::vector<Tensor>& sums) {
  const CapturedPhases& range = slots_.range();
  Tape tape;
  Context again = cx;
  again.tape = &tape;
  again.recomputing = true;
  SlotGradients gradients = Tape::gradients(slots_.output_gradients(slot_));
  {
    const OtherGradients others(range.parameters, sums);
    EagerFrame eager(range.phases);
    Bundle bundle = inputs();
    eager.forward(again, bundle);
    if (range.split_halves) {
      eager.backward(again, Half::input, gradients);
      eager.backward(again, Half::weight, gradients);
    } else {
      eager.backward(again, Half::both, gradients);
    }
    for (Tape::Gradient& gradient : gradients) gradient.pending.wait(*cx.stream);
  }
  const std::vector<Tensor>& replayed = slots_.input_gradients(slot_);
  for (std::size_t i = 0; i < replayed.size(); ++i) {
    const bool passed = !range.reads.empty() && !range.reads[i];
    if (passed || equal(replayed[i], gradients[i].tensor)) continue;
    differs(fmt::format(
        "{}, slot {}: gradients of \"{}\" ({})", range.name, slot_, names_.at(i), replayed[i]));
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (equal(range.parameters[i]->grad, sums[i])) continue;
    differs(fmt::format(
        "{}, slot {}: gradients of \"{}\"", range.name, slot_, range.parameters[i]->name));
  }
}

}  // namespace tessera
