#include <array>
#include <utility>

#include "tessera/ops.hpp"

namespace tessera::ops {

namespace {

// The heads of packed rows [n, features] as [n, heads, head_dim].
TensorArg heads_of(const Tensor& rows, const RotaryShape& shape) {
  TensorArg view = rows.arg();
  view.rank = 3;
  view.shape[1] = shape.heads;
  view.shape[2] = view.strides[1] = shape.head_dim;
  view.strides[2] = 1;
  return view;
}

// Turns `rows` where they lie if this is the only handle, else a copy of them.
void turn(Context& cx,
          Tensor& rows,
          const Tensor& positions,
          const Tensor& table,
          const RotaryShape& shape,
          bool inverse) {
  if (!rows.sole_owner() || !rows.dense()) rows = run(cx, CopyArgs{rows.arg(), {}})[0];
  const TensorArg heads = heads_of(rows, shape);
  run(cx, RotaryArgs{heads, positions.arg(), table.arg(), heads, shape.interleaved, inverse});
}

}  // namespace

// By value: whether this is the last owner decides whether the memory is used again.
Tensor rotary(
    Context& cx, Tensor x, const Tensor& positions, const Tensor& table, const RotaryShape& shape) {
  require(x.rank() == 2 && shape.heads * shape.head_dim <= x.dim(1),
          "{} heads of {} features turn in rows of as many at least, got {}",
          shape.heads,
          shape.head_dim,
          x);
  const Var var = x.var();
  Tensor y = x.with_var({});
  x = {};
  turn(cx, y, positions, table, shape, false);
  if (!cx.recording()) return y;
  const auto input_half = [positions = positions.with_var({}), table, shape](Context& c,
                                                                             Gradients& g) {
    Tensor gradient = g.take(0);
    turn(c, gradient, positions, table, shape, true);
    g.input(0, std::move(gradient));
  };
  const Tensor tracked = y.with_var(var);
  cx.tape->record("rotary", std::array{tracked}, std::array{&y}, input_half);
  return y;
}

}  // namespace tessera::ops
