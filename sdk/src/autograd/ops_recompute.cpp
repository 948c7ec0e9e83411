#include <memory>

#include "tessera/ops.hpp"

namespace tessera::ops {

namespace {

// The second run of a body, between its two backward halves.
struct Rerun {
  std::vector<Tensor> inputs;
  RecomputeBody body;
  Tape::FrameId frame = 0;
  std::vector<Var> leaves, outputs;

  void forward(Context& cx) {
    frame = cx.tape->begin();
    for (Tensor& input : inputs) {
      input = cx.tape->leaf(input);
      leaves.push_back(input.var());
    }
    Context again = cx;
    again.recomputing = true;
    for (const Tensor& output : body(again, inputs)) outputs.push_back(output.var());
    cx.tape->end();
    inputs.clear();
  }
  std::vector<Tape::Result> backward(Context& cx, Gradients& g, Half half) {
    std::vector<Tape::Seed> seeds;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      seeds.push_back({outputs[i], g.output(static_cast<int>(i))});
    }
    return cx.tape->backward(cx, frame, half, seeds, leaves);
  }
};

}  // namespace

std::vector<Tensor> recompute(Context& cx, const std::vector<Tensor>& inputs, RecomputeBody body) {
  Context first = cx;
  first.tape = nullptr;
  std::vector<Tensor> untracked;
  untracked.reserve(inputs.size());
  for (const Tensor& input : inputs) untracked.push_back(input.with_var({}));
  std::vector<Tensor> outputs = body(first, untracked);
  if (!cx.recording()) return outputs;

  auto rerun = std::make_shared<Rerun>(Rerun{std::move(untracked), std::move(body), 0, {}, {}});
  const auto input_half = [rerun](Context& c, Gradients& g) {
    rerun->forward(c);
    std::vector<Tape::Result> results = rerun->backward(c, g, Half::input);
    for (std::size_t i = 0; i < results.size(); ++i) {
      g.input(static_cast<int>(i), std::move(results[i].gradient), std::move(results[i].pending));
    }
  };
  const auto weight_half = [rerun](Context& c, Gradients& g) {
    if (rerun->frame == 0) {  // no input needed a gradient, so the input half did not run
      rerun->forward(c);
      rerun->backward(c, g, Half::both);
    } else {
      c.tape->backward(c, rerun->frame, Half::weight, {}, {});
    }
    c.tape->release(rerun->frame);
  };
  std::vector<Tensor*> results;
  results.reserve(outputs.size());
  for (Tensor& output : outputs) results.push_back(&output);
  cx.tape->record("recompute", inputs, results, input_half, weight_half);
  return outputs;
}

}  // namespace tessera::ops
