// max(x, 0)² of each element, the activation of So et al. 2021 ("Primer"): two operations, and the
// differentiable function that is made of them.
#pragma once
#include <array>
#include <tessera/build.hpp>
#include <tessera/ops.hpp>
#include <vector>

namespace example {

using namespace tessera;

inline Shape shape_of(const TensorArg& tensor) {
  Shape shape;
  for (int d = 0; d < tensor.rank; ++d) shape.push_back(tensor.shape[d]);
  return shape;
}

// Tensors first, inputs before outputs, then constants (here none). The name is the identity.
struct SquaredReluArgs {
  static constexpr std::string_view kName = "example.squared_relu";
  static constexpr int kTensors = 2, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"x", TypeRule::data}, {"out", TypeRule::data}};
  TensorArg x, out;
  static void infer(SquaredReluArgs& args) {
    infer_output(args.out, shape_of(args.x), args.x.dtype, kName);
  }
};

// out = d loss / dx of grad = d loss / dy: grad · 2 · max(x, 0).
struct SquaredReluBackwardArgs {
  static constexpr std::string_view kName = "example.squared_relu_backward";
  static constexpr int kTensors = 3, kOutputs = 1;
  static constexpr TensorRule kRules[] = {
      {"grad", TypeRule::data}, {"x", TypeRule::data}, {"out", TypeRule::data}};
  TensorArg grad, x, out;
  static void infer(SquaredReluBackwardArgs& args) {
    require(shape_of(args.grad) == shape_of(args.x), "{}: grad is not like x", kName);
    infer_output(args.out, shape_of(args.x), args.x.dtype, kName);
  }
};

// The kernels for NVIDIA GPUs (squared_relu.cu), where the build has nvcc.
std::vector<Kernel> squared_relu_gpu_kernels();

// Operations are looked up by name once, when a layer is built, and not in a step.
class SquaredRelu {
 public:
  explicit SquaredRelu(const BuildContext& build)
      : forward_(build.operation<SquaredReluArgs>()),
        backward_(build.operation<SquaredReluBackwardArgs>()) {}
  explicit SquaredRelu(const Device& device) : forward_(device), backward_(device) {}

  // Outlives the tape's frames, which hold a reference to it.
  Tensor operator()(Context& cx, const Tensor& x) const {
    Tensor y = ops::run(cx, forward_, SquaredReluArgs{x.arg(), {}})[0];
    if (!cx.recording()) return y;
    // The gradient needs x: it is kept, without its own place on the tape, until it was used.
    const auto input_half = [this, x = x.with_var({})](Context& c, Gradients& g) {
      g.input(0,
              ops::run(c, backward_, SquaredReluBackwardArgs{g.output(0).arg(), x.arg(), {}})[0]);
    };
    cx.tape->record("squared_relu", std::array{x}, std::array{&y}, input_half);
    return y;
  }

 private:
  Operation<SquaredReluArgs> forward_;
  Operation<SquaredReluBackwardArgs> backward_;
};

}  // namespace example
