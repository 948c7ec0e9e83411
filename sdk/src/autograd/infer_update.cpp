#include "sdk/src/autograd/infer.hpp"
#include "tessera/ops/update.hpp"

namespace tessera {
namespace {

void check_scalars(const Infer& check, const TensorArg& scalars) {
  check.in_place(scalars, {step_scalar::kCount});
}

void check_flat(const Infer& check, const TensorArg& tensor) {
  check.rank(tensor, 1);
  check.dense(tensor);
  check.in_place(tensor, {tensor.shape[0]});
}

/// Flat tensors, and six numbers for each shard in them.
template <class Args>
void check_shards(const Infer& check, const Args& args) {
  check_scalars(check, args.scalars);
  check.rank(args.ranges, 2);
  check.input(args.ranges, {args.ranges.shape[0], 4});
  check.input(args.hyper, {args.ranges.shape[0], 2});
  check_flat(check, args.main);
  check_flat(check, args.grad);
  check.optional(args.compute, shape_of(args.grad));
}

// The effort without the state: of flat tensors only as many elements move as `shards` has.
template <class Args>
Effort effort_of(const Args& args, const TensorArg& shards) {
  Effort effort;
  for (TensorArg moved : {args.grad, args.main, args.compute}) {
    if (!moved) continue;
    moved.shape[0] = shards.shape[0];
    effort.moves(moved);
  }
  return effort;
}

}  // namespace

void ReciprocalArgs::infer(ReciprocalArgs& args) {
  const Infer check(args);
  check.rank(args.x, 1);
  check.input(args.x, {args.x.shape[0]});
  check.output(args.out, {args.x.shape[0]});
}

void MaximumArgs::infer(MaximumArgs& args) {
  const Infer check(args);
  check.input(args.a, shape_of(args.a));
  check.input(args.b, shape_of(args.a));
  check.output(args.out, shape_of(args.a));
}

void SumSquaresArgs::infer(SumSquaresArgs& args) {
  const Infer check(args);
  check.require(present(args.x), "x is absent");
  check.rank(args.x, args.x.rank);
  check.dense(args.x);
  if (present(args.ranges)) check.rank(args.ranges, 2);
  check.optional(args.ranges, {args.ranges.shape[0], 2});
  check.in_place(args.out, {1});
}

void BlockSquaresArgs::infer(BlockSquaresArgs& args) {
  const Infer check(args);
  check.rank(args.x, 1);
  check.dense(args.x);
  check.rank(args.blocks, 2);
  check.input(args.blocks, {args.blocks.shape[0], 3});
  check.rank(args.out, 1);
  check.in_place(args.out, {args.out.shape[0]});
}

void SumBlocksArgs::infer(SumBlocksArgs& args) {
  const Infer check(args);
  check.rank(args.blocks, 1);
  check.dense(args.blocks);
  check.rank(args.ranges, 2);
  check.input(args.ranges, {args.ranges.shape[0], 2});
  check.in_place(args.out, {1});
}

void StepScalarsArgs::infer(StepScalarsArgs& args) {
  const Infer check(args);
  check.input(args.sum_squares, {1});
  check.rank(args.rates, 1);
  check.input(args.rates, {args.rates.shape[0]});
  check.require(args.rates.shape[0] > 0, "the table of learning rates is empty");
  check.require(args.clip >= 0, "clip is {}", args.clip);
  const LossScaling& scaling = args.scaling;
  check.require(scaling.window >= 0 && scaling.hysteresis >= 1 && scaling.growth >= 1 &&
                    scaling.backoff > 0 && scaling.backoff < 1 && scaling.least > 0,
                "the loss scale moves by window {}, growth {}, backoff {}, least {}, hysteresis {}",
                scaling.window,
                scaling.growth,
                scaling.backoff,
                scaling.least,
                scaling.hysteresis);
  check_scalars(check, args.scalars);
}

Effort AdamWArgs::effort(const AdamWArgs& args) {
  return effort_of(args, args.first_moment).moves(args.first_moment).moves(args.second_moment);
}

Effort SgdArgs::effort(const SgdArgs& args) {
  const bool momentum = present(args.momentum_buffer);
  return effort_of(args, momentum ? args.momentum_buffer : args.main).moves(args.momentum_buffer);
}

void AdamWArgs::infer(AdamWArgs& args) {
  const Infer check(args);
  check_shards(check, args);
  check_flat(check, args.first_moment);
  check.in_place(args.second_moment, shape_of(args.first_moment));
  check.require(args.first_moment.dtype == args.second_moment.dtype,
                "the moments are {} and {}",
                dtype_name(args.first_moment.dtype),
                dtype_name(args.second_moment.dtype));
}

void SgdArgs::infer(SgdArgs& args) {
  const Infer check(args);
  check_shards(check, args);
  check.require(present(args.momentum_buffer) || args.momentum == 0,
                "momentum is {} but there is no momentum_buffer",
                args.momentum);
  if (present(args.momentum_buffer)) check_flat(check, args.momentum_buffer);
}

}  // namespace tessera
