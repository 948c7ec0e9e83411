#include "sdk/src/autograd/infer.hpp"
#include "tessera/ops/cross_entropy.hpp"

namespace tessera {
namespace {

void check_logits(const Infer& check, const TensorArg& logits, i64 first, i64 valid) {
  check.rank(logits, 2);
  check.floating(logits);
  check.dense(logits);
  check.require(valid >= 0 && valid <= logits.shape[1],
                "valid must be in [0, {}], is {}",
                logits.shape[1],
                valid);
  check.require(first >= 0, "first is {}", first);
}

}  // namespace

void CrossEntropyMaxArgs::infer(CrossEntropyMaxArgs& args) {
  const NamedArg tensors[] = {{"logits", &args.logits}, {"out", &args.out}};
  const Infer check(kName, tensors);
  check_logits(check, args.logits, 0, args.valid);
  check.output(args.out, {args.logits.shape[0]}, statistic_dtype(args.logits.dtype));
}

void CrossEntropySumsArgs::infer(CrossEntropySumsArgs& args) {
  const NamedArg tensors[] = {
      {"logits", &args.logits}, {"targets", &args.targets}, {"max", &args.max}, {"out", &args.out}};
  const Infer check(kName, tensors);
  check_logits(check, args.logits, args.first, args.valid);
  const i64 n = args.logits.shape[0];
  const DType statistic = statistic_dtype(args.logits.dtype);
  check.input(args.targets, {n}, DType::i64);
  check.input(args.max, {n}, statistic);
  check.output(args.out, {n, 2}, statistic);
}

void CrossEntropyLossArgs::infer(CrossEntropyLossArgs& args) {
  const NamedArg tensors[] = {{"sums", &args.sums},
                              {"mask", &args.mask},
                              {"inverse_weight", &args.inverse_weight},
                              {"out", &args.out}};
  const Infer check(kName, tensors);
  check.rank(args.sums, 2);
  check.floating(args.sums);
  check.input(args.sums, {args.sums.shape[0], 2}, statistic_dtype(args.sums.dtype));
  check.input(args.mask, {args.sums.shape[0]}, DType::u8);
  check.input(args.inverse_weight, {1}, DType::f64);
  check.output(args.out, {1}, DType::f64);
}

void CrossEntropyGradArgs::infer(CrossEntropyGradArgs& args) {
  const NamedArg tensors[] = {{"logits", &args.logits},
                              {"targets", &args.targets},
                              {"max", &args.max},
                              {"sums", &args.sums},
                              {"mask", &args.mask},
                              {"inverse_weight", &args.inverse_weight},
                              {"grad", &args.grad},
                              {"out", &args.out}};
  const Infer check(kName, tensors);
  check_logits(check, args.logits, args.first, args.valid);
  const i64 n = args.logits.shape[0];
  const DType statistic = statistic_dtype(args.logits.dtype);
  check.input(args.targets, {n}, DType::i64);
  check.input(args.max, {n}, statistic);
  check.input(args.sums, {n, 2}, statistic);
  check.input(args.mask, {n}, DType::u8);
  check.input(args.inverse_weight, {1}, DType::f64);
  check.input(args.grad, {1}, DType::f64);
  check.output(args.out, shape_of(args.logits), args.logits.dtype);
}

}  // namespace tessera
