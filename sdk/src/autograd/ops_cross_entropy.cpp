#include <array>
#include <utility>

#include "tessera/ops.hpp"
#include "tessera/process_group.hpp"

namespace tessera::ops {

namespace {

// The loss, and what the rows of all shards are together.
struct ShardedLoss {
  Tensor loss, sums;
};

ShardedLoss sharded_loss(Context& cx,
                         const Tensor& logits,
                         const Tensor& targets,
                         const Tensor& mask,
                         const Tensor& inverse_weight,
                         i64 first,
                         i64 valid,
                         ProcessGroup* group,
                         std::string_view name) {
  const auto reduce = [&](const Tensor& values, ReduceOp op) {
    if (group != nullptr) group->all_reduce(*cx.stream, values, op, name).wait(*cx.stream);
  };
  const Tensor max = run(cx, CrossEntropyMaxArgs{logits.arg(), {}, valid})[0];
  reduce(max, ReduceOp::max);
  const Tensor sums =
      run(cx, CrossEntropySumsArgs{logits.arg(), targets.arg(), max.arg(), {}, first, valid})[0];
  reduce(sums, ReduceOp::sum);
  Tensor loss = run(cx, CrossEntropyLossArgs{sums.arg(), mask.arg(), inverse_weight.arg(), {}})[0];
  if (!cx.recording()) return {loss, sums};

  const auto input_half = [logits = logits.with_var({}),
                           targets = targets.with_var({}),
                           mask = mask.with_var({}),
                           max,
                           sums,
                           inverse_weight,
                           first,
                           valid](Context& c, Gradients& g) {
    CrossEntropyGradArgs back;
    back.logits = logits.arg();
    back.targets = targets.arg();
    back.max = max.arg();
    back.sums = sums.arg();
    back.mask = mask.arg();
    back.inverse_weight = inverse_weight.arg();
    const Tensor gradient = g.output(0);
    back.grad = gradient.arg();
    back.first = first;
    back.valid = valid;
    // The logits are read here for the last time; at vocabulary size they are the largest tensor.
    const Tensor out = logits.sole_owner() ? logits : c.empty(logits.shape(), logits.dtype());
    back.out = out.arg();
    run(c, back);
    g.input(0, out);
  };
  cx.tape->record("cross_entropy", std::array{logits}, std::array{&loss}, input_half);
  return {loss, sums};
}

// `group` nullptr: the logits are whole.
// By value: whether this is the last owner decides whether the memory is used again.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void add_to_loss(Context& cx,
                 LossTerm term,
                 Tensor logits,
                 const Tensor& targets,
                 const Tensor& mask,
                 i64 first,
                 i64 valid,
                 ProcessGroup* group,
                 std::string_view name,
                 double factor,
                 Metric accuracy) {
  Tensor inverse_weight = cx.sink->inverse_weight(term);
  if (factor != 1) inverse_weight = run(cx, ScaleArgs{inverse_weight.arg(), {}, factor})[0];
  const auto tell = [&](const Tensor& sums) {
    cx.sink->rows(cx, term, sums);
    if (accuracy.index < 0) return;
    const CrossEntropyLossArgs hits{sums.arg(), mask.arg(), inverse_weight.arg(), {}, true};
    cx.report(accuracy, run(cx, CrossEntropyLossArgs(hits))[0]);
  };
  if ((group != nullptr && group->size() > 1) || first != 0 ||
      !cx.ops->of<WholeCrossEntropyArgs>().available()) {
    const ShardedLoss made =
        sharded_loss(cx, logits, targets, mask, inverse_weight, first, valid, group, name);
    tell(made.sums);
    cx.add_loss(term, made.loss);
    return;
  }
  WholeCrossEntropyArgs args{
      logits.arg(), targets.arg(), mask.arg(), inverse_weight.arg(), {}, {}, {}, valid};
  Tensor gradient;
  if (cx.recording() && cx.tape->tracks(logits)) {
    gradient = logits.sole_owner() ? logits : cx.empty(logits.shape(), logits.dtype());
    args.grad = cx.loss_scale.arg();
    args.out = gradient.arg();
  }
  const Tensor sums = run(cx, args)[0];
  tell(sums);
  Tensor loss = run(cx, CrossEntropyLossArgs{sums.arg(), mask.arg(), inverse_weight.arg(), {}})[0];
  if (gradient.defined()) {
    // The loss is a root: its gradient is the loss scale, which the kernel has seen.
    cx.tape->record("cross_entropy",
                    std::array{logits},
                    std::array{&loss},
                    [gradient = gradient.with_var({})](Context&, Gradients& g) mutable {
                      g.input(0, std::move(gradient));
                    });
  }
  cx.add_loss(term, loss);
}

}  // namespace

Tensor cross_entropy(Context& cx,
                     const Tensor& logits,
                     const Tensor& targets,
                     const Tensor& mask,
                     const Tensor& inverse_weight,
                     i64 first,
                     i64 valid,
                     ProcessGroup& group,
                     std::string_view name) {
  return sharded_loss(cx, logits, targets, mask, inverse_weight, first, valid, &group, name).loss;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param)
void add_cross_entropy(Context& cx,
                       LossTerm term,
                       Tensor logits,
                       const Tensor& targets,
                       const Tensor& mask,
                       i64 first,
                       i64 valid,
                       ProcessGroup& group,
                       std::string_view name,
                       double factor,
                       Metric accuracy) {
  add_to_loss(
      cx, term, std::move(logits), targets, mask, first, valid, &group, name, factor, accuracy);
}

void add_cross_entropy(Context& cx,
                       LossTerm term,
                       Tensor logits,
                       const Tensor& targets,
                       const Tensor& mask,
                       double factor,
                       Metric accuracy) {
  const i64 classes = logits.dim(1);
  add_to_loss(
      cx, term, std::move(logits), targets, mask, 0, classes, nullptr, "", factor, accuracy);
}

}  // namespace tessera::ops
