#include "sdk/src/autograd/infer_router.hpp"

namespace tessera {
namespace {

/// Kernels hold a row of this many.
void check_width(const Infer& check, i64 count, std::string_view what) {
  check.require(count >= 1 && count <= RouterSpec::kMaxExperts,
                "{} {}; between 1 and {} are possible",
                count,
                what,
                RouterSpec::kMaxExperts);
}

/// logits [n, E] that `spec` fits; `k` choices.
void check_router(const Infer& check, const TensorArg& logits, const RouterSpec& spec, i64 k) {
  check.rank(logits, 2);
  check.dense(logits);
  const i64 all = logits.shape[1];
  check_width(check, all, "experts");
  check.require(k >= 1 && k <= all, "top_k: {} of {} experts", k, all);
  check.require(spec.groups >= 1 && all % spec.groups == 0,
                "{} experts do not form {} equal groups",
                all,
                spec.groups);
  if (spec.groups == 1) return;
  check.require(spec.group_top_k >= 1 && spec.group_top_k <= spec.groups,
                "group_top_k: {} of {} groups",
                spec.group_top_k,
                spec.groups);
  check.require(k % spec.group_top_k == 0,
                "top_k: {} is not a multiple of group_top_k = {}",
                k,
                spec.group_top_k);
  check.require(k <= spec.group_top_k * (all / spec.groups),
                "top_k: {} of {} experts in {} groups",
                k,
                spec.group_top_k * (all / spec.groups),
                spec.group_top_k);
}

/// The shape [n, k] of `experts` for these logits.
Shape check_choices(const Infer& check, const TensorArg& logits, const TensorArg& experts) {
  check.rank(logits, 2);
  check.dense(logits);
  check_width(check, logits.shape[1], "experts");
  check.rank(experts, 2);
  check_width(check, experts.shape[1], "choices of a row");
  const Shape choices{logits.shape[0], experts.shape[1]};
  check.input(experts, choices);
  return choices;
}

/// Logits [n, E] and the counts of their sequences.
void check_balance(const Infer& check,
                   const TensorArg& logits,
                   const TensorArg& counts,
                   const SequenceRows& rows) {
  check.rank(logits, 2);
  check.dense(logits);
  check_width(check, logits.shape[1], "experts");
  check_sequences(check, rows, logits.shape[0]);
  check.input(counts, {rows.sequences, logits.shape[1]});
}

}  // namespace

void check_sequences(const Infer& check, const SequenceRows& rows, i64 n) {
  if (rows.positions == 0 && rows.sequences == 1 && rows.first == 0) return;
  check.require(
      rows.positions > 0 && rows.first >= 0 && rows.first + n <= rows.positions * rows.sequences,
      "rows {} … {} are not in {} sequences of {} rows",
      rows.first,
      rows.first + n,
      rows.sequences,
      rows.positions);
}

void TopkExpertsArgs::infer(TopkExpertsArgs& args) {
  const Infer check(args);
  check_router(check, args.logits, args.spec, args.spec.top_k);
  check.optional(args.bias, {args.logits.shape[1]});
  check.output(args.experts, {args.logits.shape[0], args.spec.top_k});
}

void RouterWeightsArgs::infer(RouterWeightsArgs& args) {
  const Infer check(args);
  const Shape choices = check_choices(check, args.logits, args.experts);
  check.output(args.weights, choices);
}

void RouterWeightsBackwardArgs::infer(RouterWeightsBackwardArgs& args) {
  const Infer check(args);
  const Shape choices = check_choices(check, args.logits, args.experts);
  check.input(args.grad, choices);
  check.output(args.out, shape_of(args.logits));
}

void ExpertChoiceArgs::infer(ExpertChoiceArgs& args) {
  const Infer check(args);
  check.rank(args.logits, 2);
  check.dense(args.logits);
  const i64 all = args.logits.shape[0], experts = args.logits.shape[1];
  check.require(
      args.length > 0 && args.parts > 0 && args.length % args.parts == 0 && all % args.length == 0,
      "{} rows are not sequences of {} rows in {} parts",
      all,
      args.length,
      args.parts);
  check.require(args.rows >= 0 && args.rows <= args.length,
                "an expert takes {} of the {} rows of a sequence",
                args.rows,
                args.length);
  check.require(args.seen >= 0 && args.seen <= args.length,
                "{} of the {} rows of a sequence hold tokens",
                args.seen,
                args.length);
  check.require(args.first >= 0 && args.n >= 0 && args.first + args.n <= all,
                "rows {} … {} of {}",
                args.first,
                args.first + args.n,
                all);
  check.input(args.positions, {all});
  check.output(args.experts, {args.n, experts});
}

void ExpertBiasArgs::infer(ExpertBiasArgs& args) {
  const Infer check(args);
  check.input(args.skipped, {1});
  check.rank(args.bias, 1);
  check.in_place(args.bias, shape_of(args.bias));
  check.in_place(args.counts, shape_of(args.bias));
}

void JitterArgs::infer(JitterArgs& args) {
  const Infer check(args);
  check.rank(args.x, 2);
  check.input(args.x, shape_of(args.x));
  check.input(args.row_ids, {args.x.shape[0]});
  check.require(args.eps >= 0 && args.eps < 1, "eps must be in [0, 1), is {}", args.eps);
  check.output(args.out, shape_of(args.x));
}

void BalanceLossArgs::infer(BalanceLossArgs& args) {
  const Infer check(args);
  check_balance(check, args.logits, args.counts, args.rows);
  check.input(args.inverse_weight, {1});
  check.output(args.out, {1});
}

void BalanceGradArgs::infer(BalanceGradArgs& args) {
  const Infer check(args);
  check_balance(check, args.logits, args.counts, args.rows);
  check.input(args.inverse_weight, {1});
  check.input(args.grad, {1});
  check.output(args.out, shape_of(args.logits));
}

void ZLossArgs::infer(ZLossArgs& args) {
  const Infer check(args);
  check.rank(args.logits, 2);
  check.dense(args.logits);
  check_width(check, args.logits.shape[1], "experts");
  check.input(args.inverse_weight, {1});
  check.output(args.out, {1});
}

void ZLossGradArgs::infer(ZLossGradArgs& args) {
  const Infer check(args);
  check.rank(args.logits, 2);
  check.dense(args.logits);
  check_width(check, args.logits.shape[1], "experts");
  check.input(args.inverse_weight, {1});
  check.input(args.grad, {1});
  check.output(args.out, shape_of(args.logits));
}

}  // namespace tessera
