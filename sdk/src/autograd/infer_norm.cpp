#include "sdk/src/autograd/infer.hpp"
#include "tessera/ops/norm.hpp"

namespace tessera {
namespace {

void matrix(const Infer& check, const TensorArg& x) {
  check.rank(x, 2);
  check.dense(x);
}

template <class Args>
void input_gradient(const Infer& check, Args& args) {
  matrix(check, args.x);
  const i64 n = args.x.shape[0], h = args.x.shape[1];
  check.input(args.grad, {n, h});
  check.input(args.weight, {h});
  check.input(args.mean, {n});
  check.input(args.rstd, {n});
  if constexpr (requires { args.sum; }) check.input(args.sum, {n, h});
  check.output(args.out, {n, h});
}

}  // namespace

void LayerNormArgs::infer(LayerNormArgs& args) {
  const Infer check(args);
  matrix(check, args.x);
  const i64 n = args.x.shape[0], h = args.x.shape[1];
  check.input(args.weight, {h});
  check.input(args.bias, {h});
  check.output(args.out, {n, h});
  check.output(args.mean, {n});
  check.output(args.rstd, {n});
}

void LayerNormBackwardArgs::infer(LayerNormBackwardArgs& args) {
  input_gradient(Infer(args), args);
}

void LayerNormBackwardAddArgs::infer(LayerNormBackwardAddArgs& args) {
  input_gradient(Infer(args), args);
}

void LayerNormWeightArgs::infer(LayerNormWeightArgs& args) {
  const Infer check(args);
  matrix(check, args.x);
  const i64 n = args.x.shape[0], h = args.x.shape[1];
  check.input(args.grad, {n, h});
  check.input(args.mean, {n});
  check.input(args.rstd, {n});
  check.in_place(args.weight_grad, {h});
  check.in_place(args.bias_grad, {h});
}

}  // namespace tessera
