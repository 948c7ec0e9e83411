#include "sdk/src/autograd/infer.hpp"
#include "tessera/ops/matmul.hpp"

namespace tessera {

void MatmulArgs::infer(MatmulArgs& args) {
  const Infer check(args);
  for (const TensorArg* tensor : {&args.a, &args.b}) {
    check.rank(*tensor, 2);
    check.unit_inner(*tensor);
  }
  check.type(args.b);
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
  check.optional(args.bias, {n});
  if (present(args.packed)) check.rank(args.packed, 1);
  if (args.accumulate) {
    check.require(present(args.out), "accumulates into out, which must be given");
    check.shape(args.out, {m, n});
    check.unit_inner(args.out);
  } else {
    check.row_output(args.out, {m, n});
    check.require(args.out.dtype == args.a.dtype, "out is wider than a, but does not accumulate");
  }
}

Effort MatmulArgs::effort(const MatmulArgs& args) {
  MatmulArgs read = args;
  if (args.packed) read.b = {};
  Effort effort = effort_of_tensors(&read.a, kTensors);
  const i64 inner = args.a.shape[args.transpose_a ? 0 : 1];
  effort.flops = 2.0 * static_cast<double>(args.out.elements()) * static_cast<double>(inner);
  return effort;
}

void PackWeightArgs::infer(PackWeightArgs& args) {
  const Infer check(args);
  check.rank(args.b, 2);
  check.unit_inner(args.b);
  check.require(present(args.packed), "packs into memory of the device's own size, which is given");
  check.rank(args.packed, 1);
}

void LinearWeightArgs::infer(LinearWeightArgs& args) {
  const Infer check(args);
  for (const TensorArg* tensor : {&args.grad, &args.x}) {
    check.rank(*tensor, 2);
    check.unit_inner(*tensor);
  }
  const i64 out = args.grad.shape[1], in = args.x.shape[1];
  check.shape(args.x, {args.grad.shape[0], in});
  check.require(present(args.weight_grad), "accumulates into weight_grad, which must be given");
  check.shape(args.weight_grad, {out, in});
  check.unit_inner(args.weight_grad);
  check.in_place(args.bias_grad, {out});
}

MatmulArgs LinearWeightArgs::product() const {
  return {grad, x, {}, {}, weight_grad, true, false, true};
}
ColumnSumArgs LinearWeightArgs::sums() const { return {grad, bias_grad}; }

Effort LinearWeightArgs::effort(const LinearWeightArgs& args) {
  Effort effort = effort_of_tensors(&args.grad, kTensors);
  effort.flops = MatmulArgs::effort(args.product()).flops;
  return effort;
}

void ColumnSumArgs::infer(ColumnSumArgs& args) {
  const Infer check(args);
  check.rank(args.x, 2);
  check.dense(args.x);
  check.in_place(args.out, {args.x.shape[1]});
}

void AddBiasArgs::infer(AddBiasArgs& args) {
  const Infer check(args);
  check.rank(args.x, 2);
  check.dense(args.x);
  check.input(args.bias, {args.x.shape[1]});
  check.output(args.out, shape_of(args.x));
}

}  // namespace tessera
