#include "sdk/src/autograd/infer.hpp"
#include "tessera/ops/update.hpp"

namespace tessera {
namespace {

void check_scalars(const Infer& check, const TensorArg& scalars) {
  check.in_place(scalars, {step_scalar::kCount}, DType::f64);
}

/// Flat shards of one size; `main` says which.
void check_main(const Infer& check, const TensorArg& main) {
  check.rank(main, 1);
  check.floating(main);
  check.dense(main);
}

void check_compute(const Infer& check, const TensorArg& compute, const TensorArg& main) {
  if (!present(compute)) return;
  check.floating(compute);
  check.input(compute, shape_of(main), compute.dtype);
}

}  // namespace

void ReciprocalArgs::infer(ReciprocalArgs& args) {
  const NamedArg tensors[] = {{"x", &args.x}, {"out", &args.out}};
  const Infer check(kName, tensors);
  check.rank(args.x, 1);
  check.input(args.x, {args.x.shape[0]}, DType::i64);
  check.output(args.out, {args.x.shape[0]}, DType::f64);
}

void SumSquaresArgs::infer(SumSquaresArgs& args) {
  const NamedArg tensors[] = {{"x", &args.x}, {"out", &args.out}};
  const Infer check(kName, tensors);
  check.require(present(args.x), "x is absent");
  check.rank(args.x, args.x.rank);
  check.floating(args.x);
  check.dense(args.x);
  check.in_place(args.out, {1}, DType::f64);
}

void StepScalarsArgs::infer(StepScalarsArgs& args) {
  const NamedArg tensors[] = {
      {"sum_squares", &args.sum_squares}, {"rates", &args.rates}, {"scalars", &args.scalars}};
  const Infer check(kName, tensors);
  check.input(args.sum_squares, {1}, DType::f64);
  check.rank(args.rates, 1);
  check.input(args.rates, {args.rates.shape[0]}, DType::f64);
  check.require(args.rates.shape[0] > 0, "the table of learning rates is empty");
  check.require(args.clip >= 0, "clip is {}", args.clip);
  check_scalars(check, args.scalars);
}

void AdamWArgs::infer(AdamWArgs& args) {
  const NamedArg tensors[] = {{"scalars", &args.scalars},
                              {"grad", &args.grad},
                              {"main", &args.main},
                              {"first_moment", &args.first_moment},
                              {"second_moment", &args.second_moment},
                              {"compute", &args.compute}};
  const Infer check(kName, tensors);
  check_scalars(check, args.scalars);
  check_main(check, args.main);
  for (const TensorArg* tensor : {&args.grad, &args.first_moment, &args.second_moment}) {
    check.in_place(*tensor, shape_of(args.main), args.main.dtype);
  }
  check_compute(check, args.compute, args.main);
}

void SgdArgs::infer(SgdArgs& args) {
  const NamedArg tensors[] = {{"scalars", &args.scalars},
                              {"grad", &args.grad},
                              {"main", &args.main},
                              {"momentum_buffer", &args.momentum_buffer},
                              {"compute", &args.compute}};
  const Infer check(kName, tensors);
  check_scalars(check, args.scalars);
  check_main(check, args.main);
  check.in_place(args.grad, shape_of(args.main), args.main.dtype);
  check.require(present(args.momentum_buffer) || args.momentum == 0,
                "momentum is {} but there is no momentum_buffer",
                args.momentum);
  check.optional(args.momentum_buffer, shape_of(args.main), args.main.dtype);
  check_compute(check, args.compute, args.main);
}

}  // namespace tessera
