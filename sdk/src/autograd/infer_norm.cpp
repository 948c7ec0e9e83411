#include "sdk/src/autograd/infer.hpp"
#include "tessera/ops/norm.hpp"

namespace tessera {
namespace {

void matrix(const Infer& check, const TensorArg& x) {
  check.rank(x, 2);
  check.dense(x);
}

/// What belongs to the mean and the bias, which only centred rows have.
void absent(const Infer& check, const TensorArg& tensor, std::string_view name) {
  check.require(!present(tensor), "{} must be absent where rows are not centred", name);
}

template <class Args>
void mean_of_rows(const Infer& check, const Args& args) {
  args.centred ? check.input(args.mean, {args.x.shape[0]}) : absent(check, args.mean, "mean");
}

template <class Args>
void input_gradient(const Infer& check, Args& args) {
  matrix(check, args.x);
  const i64 n = args.x.shape[0], h = args.x.shape[1];
  check.input(args.grad, {n, h});
  check.input(args.weight, {h});
  mean_of_rows(check, args);
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
  if (args.centred) {
    check.input(args.bias, {h});
  } else {
    absent(check, args.bias, "bias");
    absent(check, args.mean, "mean");
  }
  check.output(args.out, {n, h});
  if (args.centred) check.output(args.mean, {n});
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
  mean_of_rows(check, args);
  check.input(args.rstd, {n});
  check.in_place(args.weight_grad, {h});
  if (args.centred) {
    check.in_place(args.bias_grad, {h});
  } else {
    absent(check, args.bias_grad, "bias_grad");
  }
}

}  // namespace tessera
