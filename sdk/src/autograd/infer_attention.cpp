#include "sdk/src/autograd/infer.hpp"
#include "tessera/ops/attention.hpp"

namespace tessera {
namespace {

/// What forward and backward read alike.
template <class Args>
void check_inputs(const Infer& check, const Args& args) {
  for (const TensorArg* tensor : {&args.q, &args.k, &args.v}) {
    check.rank(*tensor, 4);
    check.unit_inner(*tensor);
  }
  check.floating(args.q);
  const i64 *q = args.q.shape, *k = args.k.shape;
  const i64 kv_heads = k[2];
  check.shape(args.k, {q[0], k[1], kv_heads, q[3]}, args.q.dtype);
  check.shape(args.v, shape_of(args.k), args.q.dtype);
  check.require(kv_heads > 0 && q[2] % kv_heads == 0,
                "the {} heads of q must be a multiple of the {} of k and v",
                q[2],
                kv_heads);
  const double p = args.spec.dropout;
  check.require(p >= 0 && p < 1, "dropout must be in [0, 1), is {}", p);
  check.require(present(args.rows) || p == 0, "rows must be given when dropout is not 0");
  check.optional(args.rows, {q[0] * q[1]}, DType::i64);
}

}  // namespace

void AttentionArgs::infer(AttentionArgs& args) {
  const NamedArg tensors[] = {{"q", &args.q},
                              {"k", &args.k},
                              {"v", &args.v},
                              {"rows", &args.rows},
                              {"out", &args.out},
                              {"lse", &args.lse}};
  const Infer check(kName, tensors);
  check_inputs(check, args);
  const i64* q = args.q.shape;
  check.row_output(args.out, shape_of(args.q), args.q.dtype);
  check.output(args.lse, {q[0], q[2], q[1]}, statistic_dtype(args.q.dtype));
}

void AttentionMergeArgs::infer(AttentionMergeArgs& args) {
  const NamedArg tensors[] = {{"part_out", &args.part_out},
                              {"part_lse", &args.part_lse},
                              {"out", &args.out},
                              {"lse", &args.lse}};
  const Infer check(kName, tensors);
  check.rank(args.out, 4);
  check.floating(args.out);
  const i64* out = args.out.shape;
  check.shape(args.part_out, shape_of(args.out), args.out.dtype);
  for (const TensorArg* tensor : {&args.part_out, &args.out}) check.unit_inner(*tensor);
  const Shape rows{out[0], out[2], out[1]};
  check.input(args.part_lse, rows, statistic_dtype(args.out.dtype));
  check.in_place(args.lse, rows, statistic_dtype(args.out.dtype));
}

void AttentionBackwardArgs::infer(AttentionBackwardArgs& args) {
  const NamedArg tensors[] = {{"q", &args.q},
                              {"k", &args.k},
                              {"v", &args.v},
                              {"rows", &args.rows},
                              {"out", &args.out},
                              {"lse", &args.lse},
                              {"grad", &args.grad},
                              {"q_grad", &args.q_grad},
                              {"k_grad", &args.k_grad},
                              {"v_grad", &args.v_grad}};
  const Infer check(kName, tensors);
  check_inputs(check, args);
  const i64* q = args.q.shape;
  for (const TensorArg* tensor : {&args.out, &args.grad}) {
    check.shape(*tensor, shape_of(args.q), args.q.dtype);
    check.unit_inner(*tensor);
  }
  check.input(args.lse, {q[0], q[2], q[1]}, statistic_dtype(args.q.dtype));
  check.row_output(args.q_grad, shape_of(args.q), args.q.dtype);
  check.row_output(args.k_grad, shape_of(args.k), args.q.dtype);
  check.row_output(args.v_grad, shape_of(args.v), args.q.dtype);
}

}  // namespace tessera
