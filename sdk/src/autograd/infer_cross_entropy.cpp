#include "sdk/src/autograd/infer.hpp"
#include "tessera/ops/cross_entropy.hpp"

namespace tessera {
namespace {

void check_logits(const Infer& check, const TensorArg& logits, i64 first, i64 valid) {
  check.rank(logits, 2);
  check.dense(logits);
  check.require(valid >= 0 && valid <= logits.shape[1],
                "valid must be in [0, {}], is {}",
                logits.shape[1],
                valid);
  check.require(first >= 0, "first is {}", first);
}

}  // namespace

void CrossEntropyMaxArgs::infer(CrossEntropyMaxArgs& args) {
  const Infer check(args);
  check_logits(check, args.logits, 0, args.valid);
  check.output(args.out, {args.logits.shape[0]});
}

void CrossEntropySumsArgs::infer(CrossEntropySumsArgs& args) {
  const Infer check(args);
  check_logits(check, args.logits, args.first, args.valid);
  const i64 n = args.logits.shape[0];
  check.input(args.targets, {n});
  check.input(args.max, {n});
  check.output(args.out, {n, 2});
}

void CrossEntropyLossArgs::infer(CrossEntropyLossArgs& args) {
  const Infer check(args);
  check.rank(args.sums, 2);
  check.input(args.sums, {args.sums.shape[0], 2});
  check.input(args.mask, {args.sums.shape[0]});
  check.input(args.inverse_weight, {1});
  check.output(args.out, {1});
}

void CrossEntropyGradArgs::infer(CrossEntropyGradArgs& args) {
  const Infer check(args);
  check_logits(check, args.logits, args.first, args.valid);
  const i64 n = args.logits.shape[0];
  check.input(args.targets, {n});
  check.input(args.max, {n});
  check.input(args.sums, {n, 2});
  check.input(args.mask, {n});
  check.input(args.inverse_weight, {1});
  check.input(args.grad, {1});
  check.output(args.out, shape_of(args.logits));
}

void WholeCrossEntropyArgs::infer(WholeCrossEntropyArgs& args) {
  const Infer check(args);
  check_logits(check, args.logits, 0, args.valid);
  const i64 n = args.logits.shape[0];
  check.input(args.targets, {n});
  check.input(args.mask, {n});
  check.output(args.sums, {n, 2});
  if (!present(args.out)) return;
  check.input(args.inverse_weight, {1});
  check.input(args.grad, {1});
  check.output(args.out, shape_of(args.logits));
}

}  // namespace tessera
