#include <algorithm>

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
  const i64 *q = args.q.shape, *k = args.k.shape;
  const i64 kv_heads = k[2];
  check.shape(args.k, {q[0], k[1], kv_heads, q[3]});
  check.shape(args.v, {q[0], k[1], kv_heads, args.v.shape[3]});
  check.require(kv_heads > 0 && q[2] % kv_heads == 0,
                "the {} heads of q must be a multiple of the {} of k and v",
                q[2],
                kv_heads);
  const double p = args.spec.dropout;
  check.require(p >= 0 && p < 1, "dropout must be in [0, 1), is {}", p);
  check.require(present(args.row_ids) || p == 0, "row_ids must be given when dropout is not 0");
  check.optional(args.row_ids, {q[0] * q[1]});
  for (const TensorArg* limit : {&args.first, &args.last}) check.optional(*limit, {q[0], q[1]});
  check.require(args.spec.window >= 0, "the window is {}", args.spec.window);
  check.require(args.spec.window == 0 || args.spec.causal || present(args.last),
                "a window ends at the query, or at `last`: causal queries or `last` must be given");
}

/// Results are as wide as values.
template <class Args>
Shape result_shape(const Args& args) {
  return {args.q.shape[0], args.q.shape[1], args.q.shape[2], args.v.shape[3]};
}

// Area of { 0 <= x < queries, 0 <= y < keys, y <= x + offset }.
double visible(double queries, double keys, double offset) {
  const auto below = [keys](double x) {  // integral of min(max(t, 0), keys) up to x
    return x <= 0 ? 0 : x <= keys ? x * x / 2 : keys * keys / 2 + keys * (x - keys);
  };
  return below(offset + queries) - below(offset);
}

// Area of the scores that is visible without first and last.
double visible_area(const TensorArg& q, const TensorArg& k, const AttentionSpec& spec) {
  const auto queries = static_cast<double>(q.shape[1]), keys = static_cast<double>(k.shape[1]);
  const auto offset = static_cast<double>(spec.causal_offset),
             window = static_cast<double>(spec.window);
  if (!spec.causal) return queries * (spec.window > 0 ? std::min(window, keys) : keys);
  const double area = visible(queries, keys, offset);
  return spec.window > 0 ? area - visible(queries, keys, offset - window) : area;
}

// `products` of each kind: as long as keys, and as long as values.
template <class Args>
Effort attention_effort(const Args& args, int products) {
  Effort effort = effort_of_tensors(&args.q, Args::kTensors);
  const i64 width = args.q.shape[0] * args.q.shape[2] * (args.q.shape[3] + args.v.shape[3]);
  effort.flops =
      2.0 * products * static_cast<double>(width) * visible_area(args.q, args.k, args.spec);
  return effort;
}

}  // namespace

void AttentionArgs::infer(AttentionArgs& args) {
  const Infer check(args);
  check_inputs(check, args);
  const i64* q = args.q.shape;
  check.row_output(args.out, result_shape(args));
  check.output(args.lse, {q[0], q[2], q[1]});
}

Effort AttentionArgs::effort(const AttentionArgs& args) { return attention_effort(args, 1); }

void AttentionMergeArgs::infer(AttentionMergeArgs& args) {
  const Infer check(args);
  check.rank(args.out, 4);
  const i64* out = args.out.shape;
  check.shape(args.part_out, shape_of(args.out));
  for (const TensorArg* tensor : {&args.part_out, &args.out}) check.unit_inner(*tensor);
  const Shape rows{out[0], out[2], out[1]};
  check.input(args.part_lse, rows);
  check.in_place(args.lse, rows);
}

void AttentionBackwardArgs::infer(AttentionBackwardArgs& args) {
  const Infer check(args);
  check_inputs(check, args);
  const i64* q = args.q.shape;
  for (const TensorArg* tensor : {&args.out, &args.grad}) {
    check.shape(*tensor, result_shape(args));
    check.unit_inner(*tensor);
  }
  check.input(args.lse, {q[0], q[2], q[1]});
  check.row_output(args.q_grad, shape_of(args.q));
  check.row_output(args.k_grad, shape_of(args.k));
  check.row_output(args.v_grad, shape_of(args.v));
}

Effort AttentionBackwardArgs::effort(const AttentionBackwardArgs& args) {
  return attention_effort(args, 2);
}

}  // namespace tessera
