#include <limits>

#include "sdk/src/autograd/infer_router.hpp"
#include "tessera/operation.hpp"
#include "tessera/ops/moe.hpp"
#include "tessera/ops/router.hpp"

namespace tessera {
namespace {

/// experts [n, k] of `all`, so few that their numbers fit i32.
void check_experts(const Infer& check, const TensorArg& experts, i64 all) {
  check.rank(experts, 2);
  check.input(experts, shape_of(experts));
  check.require(all >= 1 && all <= RouterSpec::kMaxExperts,
                "{} experts; between 1 and {} are possible",
                all,
                RouterSpec::kMaxExperts);
  check.require(experts.elements() <= std::numeric_limits<i32>::max(),
                "{} choices have no numbers in i32",
                experts.elements());
}

void check_rows(const Infer& check, const TensorArg& x) {
  check.rank(x, 2);
  check.input(x, shape_of(x));
}

/// counts [E]; returns E.
i64 check_counts(const Infer& check, const TensorArg& counts) {
  check.rank(counts, 1);
  const i64 all = counts.shape[0];
  check.input(counts, {all});
  check.require(all <= RouterSpec::kMaxExperts,
                "{} experts; at most {} are possible",
                all,
                RouterSpec::kMaxExperts);
  return all;
}

double product_flops(const TensorArg& rows, const TensorArg& matrices) {
  return 2.0 * static_cast<double>(rows.shape[0]) * static_cast<double>(matrices.shape[1]) *
         static_cast<double>(matrices.shape[2]);
}

i64 activated(const Infer& check, const TensorArg& x, Activation activation) {
  check_rows(check, x);
  if (!is_gated(activation)) return x.shape[1];
  check.require(x.shape[1] % 2 == 0, "x must hold gate and up, 2f features");
  return x.shape[1] / 2;
}

}  // namespace

void ExpertCountsArgs::infer(ExpertCountsArgs& args) {
  const Infer check(args);
  check_experts(check, args.experts, args.all);
  check_sequences(check, args.rows, args.experts.shape[0]);
  const Shape counts =
      args.rows.positions == 0 ? Shape{args.all} : Shape{args.rows.sequences, args.all};
  if (args.add) return check.in_place(args.counts, counts);
  check.output(args.counts, counts);
}

void SortByExpertArgs::infer(SortByExpertArgs& args) {
  const Infer check(args);
  check_experts(check, args.experts, args.all);
  check.output(args.order, {args.experts.elements()});
  check.output(args.inverse, shape_of(args.experts));
}

void KeepChoicesArgs::infer(KeepChoicesArgs& args) {
  const Infer check(args);
  check_experts(check, args.experts, args.all);
  const i64 m = args.experts.shape[0];
  check.optional(args.weights, shape_of(args.experts));
  check.require(!present(args.weights) || args.weights.dtype == DType::fp32 ||
                    args.weights.dtype == DType::fp64,
                "weights must be fp32 or fp64");
  check.input(args.row_ids, {m});
  check.require(args.limit >= 0, "limit is {}", args.limit);
  check.require(args.first >= 0 && args.rows >= 0 && args.first + args.rows <= m,
                "rows [{}, {}) of {}",
                args.first,
                args.first + args.rows,
                m);
  check.output(args.kept, {args.rows, args.experts.shape[1]});
}

void PadOrderArgs::infer(PadOrderArgs& args) {
  const Infer check(args);
  check.rank(args.order, 1);
  check.input(args.order, {args.order.shape[0]});
  const i64 all = check_counts(check, args.counts);
  check.require(args.places >= 0 && all * args.places <= std::numeric_limits<i32>::max(),
                "{} places of each of {} experts",
                args.places,
                all);
  check.output(args.padded, {all * args.places});
}

void InvertOrderArgs::infer(InvertOrderArgs& args) {
  const Infer check(args);
  check.input(args.order, shape_of(args.order));
  check.require(
      args.size >= 0 && args.size <= std::numeric_limits<i32>::max(), "size is {}", args.size);
  check.output(args.inverse, {args.size});
}

void PermuteRowsArgs::infer(PermuteRowsArgs& args) {
  const Infer check(args);
  check_rows(check, args.x);
  check.rank(args.order, 1);
  check.input(args.order, {args.order.shape[0]});
  check.require(args.k >= 1, "k is {}", args.k);
  infer_output(args.out, {args.order.shape[0], args.x.shape[1]}, args.x.dtype, kName);
}

Effort PermuteRowsArgs::effort(const PermuteRowsArgs& args) {
  Effort effort;
  return effort.moves(args.order).moves(args.out).moves(args.out);  // rows are read and written
}

void UnpermuteRowsArgs::infer(UnpermuteRowsArgs& args) {
  const Infer check(args);
  check_rows(check, args.y);
  check.rank(args.inverse, 2);
  check.input(args.inverse, shape_of(args.inverse));
  check.output(args.out, {args.inverse.shape[0], args.y.shape[1]});
}

void GroupedMatmulArgs::infer(GroupedMatmulArgs& args) {
  const Infer check(args);
  check_rows(check, args.a);
  const i64 all = check_counts(check, args.counts), k = args.a.shape[1];
  check.rank(args.b, 3);
  const i64 n = args.b.shape[args.transpose_b ? 1 : 2];
  check.input(args.b, args.transpose_b ? Shape{all, n, k} : Shape{all, k, n});
  check.output(args.out, {args.a.shape[0], n});
}

Effort GroupedMatmulArgs::effort(const GroupedMatmulArgs& args) {
  Effort effort = effort_of_tensors(&args.a, kTensors);
  effort.flops = product_flops(args.a, args.b);
  return effort;
}

void GroupedWeightArgs::infer(GroupedWeightArgs& args) {
  const Infer check(args);
  check_rows(check, args.a);
  check_rows(check, args.grad);
  const i64 all = check_counts(check, args.counts);
  check.input(args.grad, {args.a.shape[0], args.grad.shape[1]});
  check.in_place(args.out, {all, args.a.shape[1], args.grad.shape[1]});
}

Effort GroupedWeightArgs::effort(const GroupedWeightArgs& args) {
  Effort effort = effort_of_tensors(&args.a, kTensors);
  effort.flops = product_flops(args.a, args.out);
  return effort;
}

void WeightedActivationArgs::infer(WeightedActivationArgs& args) {
  const Infer check(args);
  const i64 features = activated(check, args.x, args.activation);
  check.optional(args.weights, {args.x.shape[0]});
  check.output(args.out, {args.x.shape[0], features});
}

void WeightedActivationBackwardArgs::infer(WeightedActivationBackwardArgs& args) {
  const Infer check(args);
  const i64 features = activated(check, args.x, args.activation);
  check.input(args.grad, {args.x.shape[0], features});
  check.optional(args.weights, {args.x.shape[0]});
  check.output(args.x_grad, shape_of(args.x));
  if (present(args.weights)) check.output(args.weights_grad, {args.x.shape[0]});
}

}  // namespace tessera
