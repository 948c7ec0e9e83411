#include "sdk/src/autograd/infer.hpp"
#include "tessera/ops/matmul.hpp"

namespace tessera {

void MatmulArgs::infer(MatmulArgs& args) {
  const NamedArg tensors[] = {
      {"a", &args.a}, {"b", &args.b}, {"bias", &args.bias}, {"out", &args.out}};
  const Infer check(kName, tensors);
  for (const TensorArg* tensor : {&args.a, &args.b}) {
    check.rank(*tensor, 2);
    check.unit_inner(*tensor);
  }
  check.floating(args.a);
  check.require(args.b.dtype == args.a.dtype, "a and b must have one dtype");
  const i64 m = args.a.shape[args.transpose_a ? 1 : 0];
  const i64 k = args.a.shape[args.transpose_a ? 0 : 1];
  const i64 n = args.b.shape[args.transpose_b ? 0 : 1];
  const i64 b_inner = args.b.shape[args.transpose_b ? 1 : 0];
  check.require(k == b_inner,
                "the inner sizes {} of a{} and {} of b{} differ",
                k,
                args.transpose_a ? " (transposed)" : "",
                b_inner,
                args.transpose_b ? " (transposed)" : "");
  check.require(!(args.accumulate && present(args.bias)),
                "a bias cannot be added when accumulating");
  check.optional(args.bias, {n}, args.a.dtype);
  if (args.accumulate) {
    check.require(present(args.out), "accumulates into out, which must be given");
    check.shape(args.out, {m, n}, args.a.dtype);
    check.unit_inner(args.out);
  } else {
    check.row_output(args.out, {m, n}, args.a.dtype);
  }
}

void ColumnSumArgs::infer(ColumnSumArgs& args) {
  const NamedArg tensors[] = {{"x", &args.x}, {"out", &args.out}};
  const Infer check(kName, tensors);
  check.rank(args.x, 2);
  check.floating(args.x);
  check.dense(args.x);
  check.in_place(args.out, {args.x.shape[1]}, args.x.dtype);
}

void AddBiasArgs::infer(AddBiasArgs& args) {
  const NamedArg tensors[] = {{"x", &args.x}, {"bias", &args.bias}, {"out", &args.out}};
  const Infer check(kName, tensors);
  check.rank(args.x, 2);
  check.floating(args.x);
  check.dense(args.x);
  check.input(args.bias, {args.x.shape[1]}, args.x.dtype);
  check.output(args.out, shape_of(args.x), args.x.dtype);
}

}  // namespace tessera
