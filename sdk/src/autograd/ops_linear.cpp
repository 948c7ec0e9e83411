#include <array>

#include "sdk/src/autograd/linear_parts.hpp"
#include "tessera/ops.hpp"

namespace tessera::ops {

namespace {

// A handle that a closure keeps: the values without their place on the tape.
Tensor saved(const Tensor& tensor) { return tensor.with_var({}); }

}  // namespace

Tensor linear(Context& cx, const Tensor& x, Parameter& weight, Parameter* bias) {
  Tensor y = linear_parts::forward(cx, x, weight, bias);
  if (!cx.recording()) return y;
  const auto input_half = [&weight](Context& c, Gradients& g) {
    g.input(0, linear_parts::input_gradient(c, g.output(0), weight));
  };
  const auto weight_half = [x = saved(x), &weight, bias](Context& c, Gradients& g) {
    linear_parts::add_weight_gradient(c, g.output(0), x, weight, bias);
  };
  cx.tape->record("linear", std::array{x}, std::array{&y}, input_half, weight_half);
  return y;
}

// By value: whether this is the last owner decides whether the memory is used again.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
Tensor add_bias(Context& cx, Tensor x, Parameter& bias) {
  AddBiasArgs args{x.arg(), bias.compute.arg(), {}};
  Tensor y;
  if (x.sole_owner() && x.dense()) {
    args.out = x.arg();
    run(cx, args);
    y = saved(x);
  } else {
    y = run(cx, args)[0];
  }
  if (!cx.recording()) return y;
  cx.tape->record(
      "add_bias",
      std::array{x},
      std::array{&y},
      [](Context&, Gradients& g) { g.input(0, g.output(0)); },
      [&bias](Context& c, Gradients& g) {
        run(c, ColumnSumArgs{g.output(0).arg(), bias.grad.arg()});
      });
  return y;
}

namespace {

// The input gradient of a norm and what others have contributed to it, which a residual connection
// has: in one pass where the device can.
Tensor norm_gradient(Context& cx, LayerNormBackwardArgs& args, Gradients& gradients) {
  if (!cx.ops->of<LayerNormBackwardAddArgs>().available()) return run(cx, args)[0];
  Tensor sum = gradients.take_sum(0);
  if (!sum.defined()) return run(cx, args)[0];
  LayerNormBackwardAddArgs add{
      args.grad, args.x, args.weight, args.mean, args.rstd, sum.arg(), {}, args.centred};
  if (!sum.sole_owner()) return run(cx, add)[0];
  add.out = add.sum;
  run(cx, add);
  return sum;
}

// Layer normalisation, or RMSNorm where there is no bias; `mean` is undefined then.
Tensor norm(Context& cx,
            std::string_view name,
            const Tensor& x,
            Parameter& weight,
            Parameter* bias,
            double eps) {
  const bool centred = bias != nullptr;
  LayerNormArgs args;
  args.x = x.arg();
  args.weight = weight.compute.arg();
  if (centred) args.bias = bias->compute.arg();
  args.eps = eps;
  args.centred = centred;
  const auto made = run(cx, args);
  Tensor y = made[0];
  if (!cx.recording()) return y;
  const auto input_half = [centred, x = saved(x), mean = made[1], rstd = made[2], &weight](
                              Context& c, Gradients& g) {
    LayerNormBackwardArgs back;
    back.grad = g.output(0).arg();
    back.x = x.arg();
    back.weight = weight.compute.arg();
    back.mean = mean.arg();
    back.rstd = rstd.arg();
    back.centred = centred;
    g.input(0, norm_gradient(c, back, g));
  };
  const auto weight_half = [bias, x = saved(x), mean = made[1], rstd = made[2], &weight](
                               Context& c, Gradients& g) {
    LayerNormWeightArgs back;
    back.grad = g.output(0).arg();
    back.x = x.arg();
    back.mean = mean.arg();
    back.rstd = rstd.arg();
    back.weight_grad = weight.grad.arg();
    if (bias != nullptr) back.bias_grad = bias->grad.arg();
    back.centred = bias != nullptr;
    run(c, back);
  };
  cx.tape->record(name, std::array{x}, std::array{&y}, input_half, weight_half);
  return y;
}

}  // namespace

Tensor layernorm(Context& cx, const Tensor& x, Parameter& weight, Parameter& bias, double eps) {
  return norm(cx, "layernorm", x, weight, &bias, eps);
}

Tensor rmsnorm(Context& cx, const Tensor& x, Parameter& weight, double eps) {
  return norm(cx, "rmsnorm", x, weight, nullptr, eps);
}

Tensor embedding(Context& cx, const Tensor& ids, Parameter& table, i64 first) {
  Tensor y = run(cx, EmbeddingArgs{ids.arg(), table.compute.arg(), {}, first})[0];
  if (!cx.recording()) return y;
  cx.tape->record(
      "embedding",
      {},
      std::array{&y},
      {},
      [ids = saved(ids), &table, first](Context& c, Gradients& g) {
        run(c, EmbeddingWeightArgs{ids.arg(), g.output(0).arg(), table.grad.arg(), first});
      });
  return y;
}

}  // namespace tessera::ops
