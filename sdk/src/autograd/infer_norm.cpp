#include "sdk/src/autograd/infer.hpp"
#include "tessera/ops/norm.hpp"

namespace tessera {
namespace {

void matrix(const Infer& check, const TensorArg& x) {
  check.rank(x, 2);
  check.floating(x);
  check.dense(x);
}

}  // namespace

void LayerNormArgs::infer(LayerNormArgs& args) {
  const NamedArg tensors[] = {{"x", &args.x},
                              {"weight", &args.weight},
                              {"bias", &args.bias},
                              {"out", &args.out},
                              {"mean", &args.mean},
                              {"rstd", &args.rstd}};
  const Infer check(kName, tensors);
  matrix(check, args.x);
  const i64 n = args.x.shape[0], h = args.x.shape[1];
  const DType statistic = statistic_dtype(args.x.dtype);
  check.input(args.weight, {h}, args.x.dtype);
  check.input(args.bias, {h}, args.x.dtype);
  check.output(args.out, {n, h}, args.x.dtype);
  check.output(args.mean, {n}, statistic);
  check.output(args.rstd, {n}, statistic);
}

void LayerNormBackwardArgs::infer(LayerNormBackwardArgs& args) {
  const NamedArg tensors[] = {{"grad", &args.grad},
                              {"x", &args.x},
                              {"weight", &args.weight},
                              {"mean", &args.mean},
                              {"rstd", &args.rstd},
                              {"addend", &args.addend},
                              {"out", &args.out}};
  const Infer check(kName, tensors);
  matrix(check, args.x);
  const i64 n = args.x.shape[0], h = args.x.shape[1];
  const DType statistic = statistic_dtype(args.x.dtype);
  check.input(args.grad, {n, h}, args.x.dtype);
  check.input(args.weight, {h}, args.x.dtype);
  check.input(args.mean, {n}, statistic);
  check.input(args.rstd, {n}, statistic);
  check.optional(args.addend, {n, h}, args.x.dtype);
  check.output(args.out, {n, h}, args.x.dtype);
}

void LayerNormWeightArgs::infer(LayerNormWeightArgs& args) {
  const NamedArg tensors[] = {{"grad", &args.grad},
                              {"x", &args.x},
                              {"mean", &args.mean},
                              {"rstd", &args.rstd},
                              {"weight_grad", &args.weight_grad},
                              {"bias_grad", &args.bias_grad}};
  const Infer check(kName, tensors);
  matrix(check, args.x);
  const i64 n = args.x.shape[0], h = args.x.shape[1];
  const DType statistic = statistic_dtype(args.x.dtype);
  check.input(args.grad, {n, h}, args.x.dtype);
  check.input(args.mean, {n}, statistic);
  check.input(args.rstd, {n}, statistic);
  check.in_place(args.weight_grad, {h}, args.x.dtype);
  check.in_place(args.bias_grad, {h}, args.x.dtype);
}

}  // namespace tessera
