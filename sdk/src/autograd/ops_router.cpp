#include <array>

#include "tessera/error.hpp"
#include "tessera/moe_ops.hpp"
#include "tessera/process_group.hpp"

namespace tessera::ops {

Tensor router_weights(Context& cx,
                      const Tensor& logits,
                      const Tensor& experts,
                      const RouterSpec& spec) {
  RouterWeightsArgs args{logits.arg(), experts.arg(), {}, spec};
  Tensor weights = run(cx, args)[0];
  if (!cx.recording()) return weights;
  const auto input_half = [logits = logits.with_var({}), experts = experts.with_var({}), spec](
                              Context& c, Gradients& g) {
    const Tensor gradient = g.output(0);
    RouterWeightsBackwardArgs back{gradient.arg(), logits.arg(), experts.arg(), {}, spec};
    g.input(0, run(c, back)[0]);
  };
  cx.tape->record("router_weights", std::array{logits}, std::array{&weights}, input_half);
  return weights;
}

Routed topk_router(Context& cx, const Tensor& logits, const Tensor& bias, const RouterSpec& spec) {
  TopkExpertsArgs args;
  args.logits = logits.arg();
  if (bias.defined()) args.bias = bias.arg();
  args.spec = spec;
  const Tensor experts = run(cx, args)[0];
  return {router_weights(cx, logits, experts, spec), experts};
}

Tensor jitter(Context& cx, const Tensor& x, const Tensor& row_ids, double eps, u64 key) {
  if (!cx.training() || eps == 0) return x;
  JitterArgs args{x.arg(), row_ids.arg(), {}, key, eps};
  Tensor y = run(cx, args)[0];
  if (!cx.recording()) return y;
  const auto input_half = [row_ids = row_ids.with_var({}), eps, key](Context& c, Gradients& g) {
    const Tensor gradient = g.output(0);
    JitterArgs back{gradient.arg(), row_ids.arg(), {}, key, eps};
    g.input(0, run(c, back)[0]);
  };
  cx.tape->record("jitter", std::array{x}, std::array{&y}, input_half);
  return y;
}

namespace {

/// i64 [sequences, E], over all ranks of the group.
Tensor counts_of(Context& cx,
                 const Tensor& experts,
                 i64 all,
                 const BalanceSpec& spec,
                 ProcessGroup& group,
                 std::string_view name) {
  Tensor counts;
  if (spec.counted.defined()) {
    add_expert_counts(cx, experts, spec.counted);
    counts = cx.empty(spec.counted.shape(), DType::i64);
    CopyArgs copy{spec.counted.arg(), counts.arg()};
    run(cx, copy);
  } else {
    counts = expert_counts(cx, experts, all, spec.rows);
  }
  group.all_reduce(*cx.stream, counts, ReduceOp::sum, name).wait(*cx.stream);
  return counts.view({spec.rows.sequences, all});
}

}  // namespace

Tensor balance_loss(Context& cx,
                    const Tensor& logits,
                    const Tensor& experts,
                    const BalanceSpec& spec,
                    const Tensor& inverse_weight,
                    ProcessGroup& group,
                    std::string_view name) {
  const i64 all = logits.dim(1);
  require(spec.top_k > 0 && spec.length > 0,
          "balance_loss: top_k is {} and a sequence has {} rows",
          spec.top_k,
          spec.length);
  Tensor plain = experts;
  if (!plain.defined()) {
    TopkExpertsArgs choose;
    choose.logits = logits.arg();
    choose.spec.top_k = spec.top_k;
    plain = run(cx, choose)[0];
  }
  const bool fractions = spec.counted.defined();
  require(!fractions || (spec.rows.positions == 0 && !cx.recomputing),
          "balance_loss: earlier rows are counted for one sequence only, and once");
  const Tensor counts = counts_of(cx, plain, all, spec, group, name);
  const double length = static_cast<double>(spec.length);
  BalanceLossArgs args;
  args.logits = logits.arg();
  args.counts = counts.arg();
  args.inverse_weight = inverse_weight.arg();
  args.rows = spec.rows;
  args.score = spec.score;
  args.fractions = fractions;
  args.factor = spec.coefficient * static_cast<double>(all) /
                (fractions ? length : static_cast<double>(spec.top_k) * length * length);
  Tensor loss = run(cx, args)[0];
  if (!cx.recording()) return loss;
  const auto input_half = [logits = logits.with_var({}),
                           counts,
                           inverse_weight,
                           rows = args.rows,
                           score = args.score,
                           factor = args.factor,
                           fractions](Context& c, Gradients& g) {
    const Tensor gradient = g.output(0);
    BalanceGradArgs back{logits.arg(),
                         counts.arg(),
                         inverse_weight.arg(),
                         gradient.arg(),
                         {},
                         rows,
                         score,
                         factor,
                         fractions};
    g.input(0, run(c, back)[0]);
  };
  cx.tape->record("balance_loss", std::array{logits}, std::array{&loss}, input_half);
  return loss;
}

Tensor z_loss(Context& cx, const Tensor& logits, double coefficient, const Tensor& inverse_weight) {
  ZLossArgs args{logits.arg(), inverse_weight.arg(), {}, coefficient};
  Tensor loss = run(cx, args)[0];
  if (!cx.recording()) return loss;
  const auto input_half = [logits = logits.with_var({}), inverse_weight, coefficient](
                              Context& c, Gradients& g) {
    const Tensor gradient = g.output(0);
    ZLossGradArgs back{logits.arg(), inverse_weight.arg(), gradient.arg(), {}, coefficient};
    g.input(0, run(c, back)[0]);
  };
  cx.tape->record("z_loss", std::array{logits}, std::array{&loss}, input_half);
  return loss;
}

}  // namespace tessera::ops
