#include <algorithm>
#include <array>
#include <iterator>

#include "tessera/error.hpp"
#include "tessera/moe_ops.hpp"

namespace tessera::ops {
namespace {

Tensor rows_at(Context& cx, const Tensor& x, const Tensor& order, i64 k) {
  return run(cx, PermuteRowsArgs{x.arg(), order.arg(), {}, k})[0];
}

Tensor sums_of(Context& cx, const Tensor& y, const Tensor& inverse) {
  return run(cx, UnpermuteRowsArgs{y.arg(), inverse.arg(), {}})[0];
}

struct NamedActivation {
  std::string_view name, recorded;  // on a tape
  Activation activation;
};
constexpr NamedActivation kActivations[] = {{"swiglu", "weighted_swiglu", Activation::swiglu},
                                            {"gelu", "weighted_gelu", Activation::gelu},
                                            {"geglu", "weighted_geglu", Activation::geglu}};

}  // namespace

Tensor expert_counts(Context& cx, const Tensor& experts, i64 all) {
  return expert_counts(cx, experts, all, {});
}

Tensor expert_counts(Context& cx, const Tensor& experts, i64 all, const SequenceRows& rows) {
  return run(cx, ExpertCountsArgs{experts.arg(), {}, all, rows})[0];
}

void add_expert_counts(Context& cx, const Tensor& experts, const Tensor& counts) {
  run(cx, ExpertCountsArgs{experts.arg(), counts.arg(), counts.dim(0), {}, true});
}

ExpertOrder sort_by_expert(Context& cx, const Tensor& experts, i64 all) {
  const auto made = run(cx, SortByExpertArgs{experts.arg(), {}, {}, all});
  return {made[0], made[1]};
}

Tensor keep_choices(Context& cx,
                    const Tensor& experts,
                    const Tensor& weights,
                    const Tensor& row_ids,
                    const KeepSpec& spec) {
  KeepChoicesArgs args;
  args.experts = experts.arg();
  if (weights.defined()) args.weights = weights.arg();
  args.row_ids = row_ids.arg();
  args.all = spec.experts;
  args.limit = spec.limit;
  args.per_sample = spec.per_sample;
  args.first = spec.first;
  args.rows = spec.rows;
  return run(cx, args)[0];
}

Tensor pad_order(Context& cx, const Tensor& order, const Tensor& counts, i64 places) {
  return run(cx, PadOrderArgs{order.arg(), counts.arg(), {}, places})[0];
}

Tensor invert_order(Context& cx, const Tensor& order, i64 size) {
  return run(cx, InvertOrderArgs{order.arg(), {}, size})[0];
}

Tensor permute_rows(
    Context& cx, const Tensor& x, const Tensor& order, i64 k, const Tensor& inverse) {
  Tensor rows = rows_at(cx, x, order, k);
  if (!cx.recording() || !cx.tape->tracks(x)) return rows;
  const auto input_half = [order = inverse.defined() ? Tensor() : order.with_var({}),
                           inverse = inverse.defined() ? inverse.with_var({}) : Tensor(),
                           n = x.dim(0),
                           k](Context& c, Gradients& g) {
    const Tensor places = inverse.defined() ? inverse : invert_order(c, order, n * k).view({n, k});
    g.input(0, sums_of(c, g.output(0), places));
  };
  cx.tape->record("permute_rows", std::array{x}, std::array{&rows}, input_half);
  return rows;
}

Tensor unpermute_rows(Context& cx, const Tensor& y, const Tensor& inverse, const Tensor& order) {
  Tensor sums = sums_of(cx, y, inverse);
  if (!cx.recording()) return sums;
  const auto input_half = [order = order.defined() ? order.with_var({}) : Tensor(),
                           inverse = order.defined() ? Tensor() : inverse.with_var({}),
                           m = y.dim(0),
                           k = inverse.dim(1)](Context& c, Gradients& g) {
    const Tensor numbers = order.defined() ? order : invert_order(c, inverse, m);
    g.input(0, rows_at(c, g.output(0), numbers, k));
  };
  cx.tape->record("unpermute_rows", std::array{y}, std::array{&sums}, input_half);
  return sums;
}

Tensor grouped_linear(Context& cx, const Tensor& x, Parameter& weight, const Tensor& counts) {
  Tensor y = run(cx, GroupedMatmulArgs{x.arg(), counts.arg(), weight.compute.arg(), {}})[0];
  if (!cx.recording()) return y;
  const auto input_half = [&weight, counts = counts.with_var({})](Context& c, Gradients& g) {
    const Tensor gradient = g.output(0);
    g.input(
        0,
        run(c, GroupedMatmulArgs{gradient.arg(), counts.arg(), weight.compute.arg(), {}, true})[0]);
  };
  const auto weight_half = [x = x.with_var({}), &weight, counts = counts.with_var({})](
                               Context& c, Gradients& g) {
    const Tensor gradient = g.output(0);
    run(c, GroupedWeightArgs{x.arg(), counts.arg(), gradient.arg(), weight.grad.arg()});
  };
  cx.tape->record("grouped_linear", std::array{x}, std::array{&y}, input_half, weight_half);
  return y;
}

Tensor weighted_activation(Context& cx,
                           const Tensor& x,
                           const Tensor& weights,
                           Activation activation) {
  WeightedActivationArgs args;
  args.x = x.arg();
  if (weights.defined()) args.weights = weights.arg();
  args.activation = activation;
  Tensor y = run(cx, args)[0];
  if (!cx.recording()) return y;
  const auto input_half = [x = x.with_var({}),
                           weights = weights.defined() ? weights.with_var({}) : Tensor(),
                           activation](Context& c, Gradients& g) {
    WeightedActivationBackwardArgs back;
    const Tensor gradient = g.output(0);
    back.grad = gradient.arg();
    back.x = x.arg();
    if (weights.defined()) back.weights = weights.arg();
    back.activation = activation;
    const auto made = run(c, back);
    g.input(0, made[0]);
    if (weights.defined() && g.wants(1)) g.input(1, made[1]);
  };
  const std::string_view name =
      std::ranges::find(kActivations, activation, &NamedActivation::activation)->recorded;
  cx.tape->record(name, std::array{x, weights}, std::array{&y}, input_half);
  return y;
}

Activation activation_named(std::string_view name) {
  const auto* found = std::ranges::find(kActivations, name, &NamedActivation::name);
  if (found == std::end(kActivations)) fail_config("there is no activation \"{}\"", name);
  return found->activation;
}

}  // namespace tessera::ops
