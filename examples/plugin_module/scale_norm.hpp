// A normalisation with one learned scale for all features (Nguyen, Salazar 2019):
// out = x · rstd · scale with rstd = 1 / sqrt(mean of x² + eps) of each row. Three operations: the
// forward pass, and the two halves of the backward pass.
#pragma once
#include <array>
#include <tessera/build.hpp>
#include <tessera/ops.hpp>

namespace example {

using namespace tessera;

// x, out [n, h]; scale [1]; rstd [n] is kept for the backward pass.
struct ScaleNormArgs {
  static constexpr std::string_view kName = "example.scale_norm";
  static constexpr int kTensors = 4, kOutputs = 2;
  static constexpr TensorRule kRules[] = {{"x", TypeRule::data},
                                          {"scale", TypeRule::data},
                                          {"out", TypeRule::data},
                                          {"rstd", TypeRule::statistic}};
  TensorArg x, scale, out, rstd;
  double eps = 1e-5;
  static void infer(ScaleNormArgs& args) {
    require(args.x.rank == 2 && args.scale.rank == 1 && args.scale.shape[0] == 1,
            "{}: x must be [n, h] and scale [1]",
            kName);
    const DType statistic = args.x.dtype == DType::fp64 ? DType::fp64 : DType::fp32;
    infer_output(args.out, {args.x.shape[0], args.x.shape[1]}, args.x.dtype, kName);
    infer_output(args.rstd, {args.x.shape[0]}, statistic, kName);
  }
};

// The input half: out [n, h] = d loss / dx.
struct ScaleNormBackwardArgs {
  static constexpr std::string_view kName = "example.scale_norm_backward";
  static constexpr int kTensors = 5, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"grad", TypeRule::data},
                                          {"x", TypeRule::data},
                                          {"scale", TypeRule::data},
                                          {"rstd", TypeRule::statistic},
                                          {"out", TypeRule::data}};
  TensorArg grad, x, scale, rstd, out;
  static void infer(ScaleNormBackwardArgs& args) {
    infer_output(args.out, {args.x.shape[0], args.x.shape[1]}, args.x.dtype, kName);
  }
};

// The weight half: scale_grad [1] += sum over rows and features of grad · x · rstd.
struct ScaleNormWeightArgs {
  static constexpr std::string_view kName = "example.scale_norm_weight";
  static constexpr int kTensors = 4, kOutputs = 1;
  static constexpr TensorRule kRules[] = {{"grad", TypeRule::data},
                                          {"x", TypeRule::data},
                                          {"rstd", TypeRule::statistic},
                                          {"scale_grad", TypeRule::accumulator}};
  TensorArg grad, x, rstd, scale_grad;
  static void infer(ScaleNormWeightArgs& args) {
    require(args.scale_grad.rank == 1 && args.scale_grad.shape[0] == 1,
            "{}: scale_grad must be [1]",
            kName);
  }
};

// The differentiable function. Its operations are looked up once, when the module is built.
class ScaleNormFunction {
 public:
  explicit ScaleNormFunction(const BuildContext& build)
      : forward_(build.operation<ScaleNormArgs>()),
        backward_(build.operation<ScaleNormBackwardArgs>()),
        weight_(build.operation<ScaleNormWeightArgs>()) {}
  explicit ScaleNormFunction(const Device& device)
      : forward_(device), backward_(device), weight_(device) {}

  // Outlives the tape's frames, which hold references to it and to `scale`.
  Tensor operator()(Context& cx, const Tensor& x, Parameter& scale, double eps) const {
    const auto [y, rstd] =
        ops::run(cx, forward_, ScaleNormArgs{x.arg(), scale.compute.arg(), {}, {}, eps});
    Tensor out = y;
    if (!cx.recording()) return out;
    // Kept tensors are copied without their place on the tape: with it they would hold frames.
    const auto input_half = [this, x = x.with_var({}), rstd = rstd, &scale](Context& c,
                                                                            Gradients& g) {
      ScaleNormBackwardArgs back{g.output(0).arg(), x.arg(), scale.compute.arg(), rstd.arg(), {}};
      g.input(0, ops::run(c, backward_, back)[0]);
    };
    const auto weight_half = [this, x = x.with_var({}), rstd = rstd, &scale](Context& c,
                                                                             Gradients& g) {
      ScaleNormWeightArgs back{g.output(0).arg(), x.arg(), rstd.arg(), scale.grad.arg()};
      ops::run(c, weight_, back);
    };
    cx.tape->record("scale_norm", std::array{x}, std::array{&out}, input_half, weight_half);
    return out;
  }

 private:
  Operation<ScaleNormArgs> forward_;
  Operation<ScaleNormBackwardArgs> backward_;
  Operation<ScaleNormWeightArgs> weight_;
};

}  // namespace example
