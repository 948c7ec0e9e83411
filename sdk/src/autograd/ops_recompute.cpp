#include <memory>
#include <utility>

#include "tessera/ops.hpp"

namespace tessera::ops {

namespace {

// The second run of a body, in the backward pass.
struct Rerun {
  std::vector<Tensor> inputs;
  RecomputeBody body;
  std::size_t outputs;
  Tape::FrameId frame = 0;

  void forward(Context& cx) {
    frame = cx.tape->begin(inputs);
    Context again = cx;
    again.recomputing = true;
    cx.tape->end(body(again, inputs));
    inputs.clear();
  }
  void backward(Context& cx, Gradients& g, Half half) {
    if (frame == 0) {
      forward(cx);
      // Where no input needs a gradient, the input half did not run.
      if (half == Half::weight) half = Half::both;
    }
    std::vector<Tape::Gradient> gradients(half == Half::weight ? 0 : outputs);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      gradients[i].tensor = g.output(static_cast<int>(i));
    }
    cx.tape->backward(cx, frame, half, gradients);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      g.input(static_cast<int>(i), std::move(gradients[i].tensor), std::move(gradients[i].pending));
    }
  }
};

}  // namespace

std::vector<Tensor> recompute(Context& cx, const std::vector<Tensor>& inputs, RecomputeBody body) {
  Context first = cx;
  first.tape = nullptr;
  std::vector<Tensor> outputs = body(first, inputs);
  if (!cx.recording()) return outputs;

  auto rerun = std::make_shared<Rerun>(Rerun{inputs, std::move(body), outputs.size()});
  std::vector<Tensor*> results;
  results.reserve(outputs.size());
  for (Tensor& output : outputs) results.push_back(&output);
  cx.tape->record(
      "recompute",
      inputs,
      results,
      [rerun](Context& c, Gradients& g) { rerun->backward(c, g, Half::input); },
      [rerun](Context& c, Gradients& g) { rerun->backward(c, g, Half::weight); });
  return outputs;
}

}  // namespace tessera::ops
