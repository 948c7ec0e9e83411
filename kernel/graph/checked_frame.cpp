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

// Redirects the parameters' gradients to other tensors, and restores their own.
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

void copy_values(Context& cx, const Tensor& from, const Tensor& to) {
  ops::run(cx, CopyArgs{from.arg(), to.arg()});
}

std::vector<Tensor> copies(Context& cx, const std::vector<Tensor>& tensors) {
  std::vector<Tensor> made;
  for (const Tensor& tensor : tensors) {
    copy_values(cx, tensor, made.emplace_back(cx.empty(tensor.shape(), tensor.dtype())));
  }
  return made;
}

// While it lives, buffers hold other values.
class OtherValues {
 public:
  OtherValues(Context& cx, const std::vector<Tensor>& buffers, const std::vector<Tensor>& values)
      : cx_(cx), buffers_(buffers), own_(copies(cx, buffers)) {
    for (std::size_t i = 0; i < buffers.size(); ++i) copy_values(cx, values[i], buffers[i]);
  }
  ~OtherValues() {
    for (std::size_t i = 0; i < buffers_.size(); ++i) copy_values(cx_, own_[i], buffers_[i]);
  }
  OtherValues(const OtherValues&) = delete;
  OtherValues& operator=(const OtherValues&) = delete;

 private:
  Context& cx_;
  const std::vector<Tensor>& buffers_;
  std::vector<Tensor> own_;
};

// Losses and metrics were counted by the replay.
class Unread final : public StepSink {
 public:
  explicit Unread(StepSink* counts) : counts_(counts) {}
  Tensor inverse_weight(LossTerm term) override { return counts_->inverse_weight(term); }
  void add_loss(Context&, LossTerm, const Tensor&) override {}
  void report(Context&, Metric, const Tensor&) override {}
  void count(Context&, Counts, i64, const Tensor&) override {}

 private:
  StepSink* counts_;
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

Context CheckedFrame::as_it_runs(const Context& cx, StepSink& unread) const {
  Context again = cx;
  again.tape = nullptr;
  if (cx.sink != nullptr) again.sink = &unread;
  return again;
}

void CheckedFrame::forward(Context& cx, Bundle& bundle) {
  const CapturedPhases& range = slots_.range();
  bundle.arrive(*cx.stream);
  found_ = bundle;
  buffers_ = copies(cx, range.written);
  slots_.frame(slot_).forward(cx, bundle);
  const OtherValues before(cx, range.written, buffers_);
  Unread unread(cx.sink);
  Context again = as_it_runs(cx, unread);
  Bundle eager = inputs();
  for (Tensor& tensor : eager.tensors()) tensor = tensor.with_var({});
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
  cx.device->synchronize(*cx.stream);  // integers may be on their way to blocks of this bundle
}

void CheckedFrame::backward(Context& cx, Half half, SlotGradients& gradients) {
  if (half == Half::input) return slots_.frame(slot_).backward(cx, half, gradients);
  std::vector<Tensor> sums;
  for (const Parameter* parameter : slots_.range().parameters) {
    copy_values(cx,
                parameter->grad,
                sums.emplace_back(cx.empty(parameter->grad.shape(), parameter->grad.dtype())));
  }
  slots_.frame(slot_).backward(cx, half, gradients);
  compare_backward(cx, sums);
  found_ = Bundle(0, 0);
  buffers_.clear();
}

void CheckedFrame::compare_backward(Context& cx, const std::vector<Tensor>& sums) {
  const CapturedPhases& range = slots_.range();
  Tape tape;
  Unread unread(cx.sink);
  Context again = as_it_runs(cx, unread);
  again.tape = &tape;
  SlotGradients gradients = Tape::gradients(slots_.output_gradients(slot_));
  {
    const OtherGradients others(range.parameters, sums);
    const OtherValues before(cx, range.written, buffers_);
    EagerFrames eager(range.phases);
    Bundle bundle = inputs();
    for (std::size_t i = 0; i < eager.size(); ++i) eager[i].forward(again, bundle);
    if (range.split_halves) {
      eager.backward(again, Half::input, gradients);
      eager.backward(again, Half::weight, gradients);
    } else {
      eager.backward(again, Half::both, gradients);
    }
    for (Tape::Gradient& gradient : gradients) gradient.pending.wait(*cx.stream);
    cx.device->synchronize(*cx.stream);
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
