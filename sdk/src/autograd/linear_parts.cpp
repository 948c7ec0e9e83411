#include "sdk/src/autograd/linear_parts.hpp"

namespace tessera::linear_parts {

Tensor forward(Context& cx, const Tensor& x, const Parameter& weight, const Parameter* bias) {
  MatmulArgs args;
  args.a = x.arg();
  args.b = weight.compute.arg();
  if (bias != nullptr) args.bias = bias->compute.arg();
  if (weight.forward_packed.defined()) args.packed = weight.forward_packed.arg();
  args.transpose_b = true;
  return ops::run(cx, args)[0];
}

Tensor input_gradient(Context& cx, const Tensor& gradient, const Parameter& weight) {
  MatmulArgs args;
  args.a = gradient.arg();
  args.b = weight.compute.arg();
  if (weight.backward_packed.defined()) args.packed = weight.backward_packed.arg();
  return ops::run(cx, args)[0];
}

void add_weight_gradient(
    Context& cx, const Tensor& gradient, const Tensor& x, Parameter& weight, Parameter* bias) {
  LinearWeightArgs args{gradient.arg(), x.arg(), weight.grad.arg(), {}};
  if (bias != nullptr) args.bias_grad = bias->grad.arg();
  if (bias != nullptr && cx.ops->of<LinearWeightArgs>().available()) {
    ops::run(cx, args);
    return;
  }
  MatmulArgs product = args.product();
  ops::run(cx, product);
  if (bias == nullptr) return;
  ColumnSumArgs sums = args.sums();
  ops::run(cx, sums);
}

}  // namespace tessera::linear_parts
