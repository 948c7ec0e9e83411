// Root mean square normalisation (Zhang, Sennrich 2019): out = x · rstd · weight with
// rstd = 1 / sqrt(mean of x² + eps) of each row. Three operations: the forward pass, and the two
// halves of the backward pass.
#pragma once
#include <array>
#include <tessera/build.hpp>
#include <tessera/ops.hpp>

namespace example {

using namespace tessera;

// x, out [n, h]; weight [h]; rstd [n] is kept for the backward pass.
struct RmsNormArgs {
  static constexpr std::string_view kName = "example.rms_norm";
  static constexpr int kTensors = 4, kOutputs = 2;
  static constexpr TensorRule kRules[] = {{"x", TypeRule::data},
                                          {"weight", TypeRule::data},
                                          {"out", TypeRule::data},
                                          {"rstd", TypeRule::statistic}};
  TensorArg x, weight, out, rstd;
  double eps = 1e-5;
  static void infer(RmsNormArgs& args) {
    require(args.x.rank == 2 && args.weight.rank == 1 && args.weight.shape[0] == args.x.shape[1],
            "{}: x must be [n, h] and weight [h]",
            kName);
    const DType statistic = args.x.dtype == DType::fp64 ? DType::fp64 : DType::fp32;
    infer_output(args.out, {args.x.shape[0], args.x.shape[1]}, args.x.dtype, kName);
    infer_output(args.rstd, {args.x.shape[0]}, statistic, kName);
  }
};

// The input half: out [n, h] = d loss / dx.
struct RmsNormBackwardArgs {
  static constexpr std::string_view kName = "example.rms_norm_backward";
  static constexpr int kTensors = 5, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"grad", TypeRule::data},
                                          {"x", TypeRule::data},
                                          {"weight", TypeRule::data},
                                          {"rstd", TypeRule::statistic},
                                          {"out", TypeRule::data}};
  TensorArg grad, x, weight, rstd, out;
  static void infer(RmsNormBackwardArgs& args) {
    infer_output(args.out, {args.x.shape[0], args.x.shape[1]}, args.x.dtype, kName);
  }
};

// The weight half: weight_grad [h] += sum over rows of grad · x · rstd.
struct RmsNormWeightArgs {
  static constexpr std::string_view kName = "example.rms_norm_weight";
  static constexpr int kTensors = 4, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"grad", TypeRule::data},
                                          {"x", TypeRule::data},
                                          {"rstd", TypeRule::statistic},
                                          {"weight_grad", TypeRule::accumulator}};
  TensorArg grad, x, rstd, weight_grad;
  static void infer(RmsNormWeightArgs& args) {
    require(args.weight_grad.rank == 1 && args.weight_grad.shape[0] == args.x.shape[1],
            "{}: weight_grad must be [h]",
            kName);
  }
};

// The differentiable function. Its operations are looked up once, when the module is built.
class RmsNormFunction {
 public:
  explicit RmsNormFunction(const BuildContext& build)
      : forward_(build.operation<RmsNormArgs>()),
        backward_(build.operation<RmsNormBackwardArgs>()),
        weight_(build.operation<RmsNormWeightArgs>()) {}
  explicit RmsNormFunction(const Device& device)
      : forward_(device), backward_(device), weight_(device) {}

  // Outlives the tape's frames, which hold references to it and to `weight`.
  Tensor operator()(Context& cx, const Tensor& x, Parameter& weight, double eps) const {
    const auto [y, rstd] =
        ops::run(cx, forward_, RmsNormArgs{x.arg(), weight.compute.arg(), {}, {}, eps});
    Tensor out = y;
    if (!cx.recording()) return out;
    // Kept tensors are copied without their place on the tape: with it they would hold frames.
    const auto input_half = [this, x = x.with_var({}), rstd = rstd, &weight](Context& c,
                                                                             Gradients& g) {
      RmsNormBackwardArgs back{g.output(0).arg(), x.arg(), weight.compute.arg(), rstd.arg(), {}};
      g.input(0, ops::run(c, backward_, back)[0]);
    };
    const auto weight_half = [this, x = x.with_var({}), rstd = rstd, &weight](Context& c,
                                                                              Gradients& g) {
      RmsNormWeightArgs back{g.output(0).arg(), x.arg(), rstd.arg(), weight.grad.arg()};
      ops::run(c, weight_, back);
    };
    cx.tape->record("rms_norm", std::array{x}, std::array{&out}, input_half, weight_half);
    return out;
  }

 private:
  Operation<RmsNormArgs> forward_;
  Operation<RmsNormBackwardArgs> backward_;
  Operation<RmsNormWeightArgs> weight_;
};

}  // namespace example
