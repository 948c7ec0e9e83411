#include "sdk/src/autograd/infer.hpp"
#include "tessera/ops/elementwise.hpp"

namespace tessera {
namespace {

/// The first input, which says what the others are.
void leading(const Infer& check, const TensorArg& x) {
  check.rank(x, x.rank);
  check.require(present(x), "the first input is absent");
  check.dense(x);
}

template <class Args>
void infer_binary(Args& args) {
  const Infer check(args);
  leading(check, args.a);
  check.input(args.b, shape_of(args.a));
  check.output(args.out, shape_of(args.a));
}

template <class Args>
void infer_unary(Args& args) {
  const Infer check(args);
  leading(check, args.x);
  check.output(args.out, shape_of(args.x));
}

/// Infers a gradient times a derivative at x.
template <class Args>
void infer_slope(Args& args) {
  const Infer check(args);
  leading(check, args.grad);
  check.input(args.x, shape_of(args.grad));
  check.output(args.out, shape_of(args.grad));
}

}  // namespace

void AddArgs::infer(AddArgs& args) { infer_binary(args); }
void MultiplyArgs::infer(MultiplyArgs& args) { infer_binary(args); }
void ScaleArgs::infer(ScaleArgs& args) { infer_unary(args); }
void GeluArgs::infer(GeluArgs& args) { infer_unary(args); }

void GeluErfArgs::infer(GeluErfArgs& args) { infer_unary(args); }
void TanhArgs::infer(TanhArgs& args) { infer_unary(args); }
void GeluBackwardArgs::infer(GeluBackwardArgs& args) { infer_slope(args); }
void GeluErfBackwardArgs::infer(GeluErfBackwardArgs& args) { infer_slope(args); }
void TanhBackwardArgs::infer(TanhBackwardArgs& args) { infer_slope(args); }

void DropoutArgs::infer(DropoutArgs& args) {
  const Infer check(args);
  check.rank(args.x, 2);
  check.dense(args.x);
  check.require(args.p >= 0 && args.p < 1, "p must be in [0, 1), is {}", args.p);
  check.require(args.feature_offset >= 0, "feature_offset is {}", args.feature_offset);
  check.require(present(args.row_ids) || args.p == 0, "row_ids must be given when p is not 0");
  check.optional(args.residual, shape_of(args.x));
  check.optional(args.row_ids, {args.x.shape[0]});
  check.output(args.out, shape_of(args.x));
}

void FillArgs::infer(FillArgs& args) {
  const Infer check(args);
  check.require(present(args.out), "out must say its shape and dtype");
  // An output without memory takes the caller's shape and dtype, made dense.
  if (args.out.address == nullptr) check.output(args.out, shape_of(args.out));
}

void CopyArgs::infer(CopyArgs& args) {
  const Infer check(args);
  check.require(present(args.x), "x is absent");
  check.rank(args.x, args.x.rank);
  // An out without memory keeps its dtype when it has a shape, and is like x when it has none.
  const DType dtype = present(args.out) ? args.out.dtype : args.x.dtype;
  if (args.out.address == nullptr) {
    check.require(!present(args.out) || shape_of(args.out) == shape_of(args.x),
                  "x and out must have one shape");
    describe(args.out, shape_of(args.x), dtype);
  } else {
    check.shape(args.out, shape_of(args.x));
  }
}

}  // namespace tessera
