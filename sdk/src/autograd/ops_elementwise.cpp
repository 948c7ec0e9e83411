#include <array>
#include <numeric>
#include <utility>

#include "tessera/ops.hpp"

namespace tessera::ops {

namespace {

/// A function of each element, and the operation that multiplies a gradient by its derivative.
template <class Forward, class Backward>
Tensor of_each(Context& cx, const Tensor& x) {
  Forward args{x.arg(), {}};
  Tensor y = run(cx, args)[0];
  if (!cx.recording()) return y;
  const auto input_half = [x = x.with_var({})](Context& c, Gradients& g) {
    Tensor gradient = g.take(0);
    Backward back{gradient.arg(), x.arg(), {}};
    if (gradient.sole_owner() && gradient.dense()) {
      back.out = back.grad;
      run(c, back);
    } else {
      gradient = run(c, back)[0];
    }
    g.input(0, std::move(gradient));
  };
  cx.tape->record(Forward::kName, std::array{x}, std::array{&y}, input_half);
  return y;
}

}  // namespace

Tensor gelu(Context& cx, const Tensor& x) { return of_each<GeluArgs, GeluBackwardArgs>(cx, x); }

Tensor gelu_erf(Context& cx, const Tensor& x) {
  return of_each<GeluErfArgs, GeluErfBackwardArgs>(cx, x);
}

Tensor tanh(Context& cx, const Tensor& x) { return of_each<TanhArgs, TanhBackwardArgs>(cx, x); }

Tensor add(Context& cx, const Tensor& a, const Tensor& b) {
  Tensor y = run(cx, AddArgs{a.arg(), b.arg(), {}})[0];
  if (!cx.recording()) return y;
  cx.tape->record("add", std::array{a, b}, std::array{&y}, [](Context&, Gradients& g) {
    g.input(0, g.output(0));
    g.input(1, g.output(0));
  });
  return y;
}

Tensor multiply(Context& cx, const Tensor& a, const Tensor& b) {
  Tensor y = run(cx, MultiplyArgs{a.arg(), b.arg(), {}})[0];
  if (!cx.recording()) return y;
  cx.tape->record("multiply",
                  std::array{a, b},
                  std::array{&y},
                  [a = a.with_var({}), b = b.with_var({})](Context& c, Gradients& g) {
                    const Tensor gradient = g.output(0);
                    if (g.wants(0)) {
                      g.input(0, run(c, MultiplyArgs{gradient.arg(), b.arg(), {}})[0]);
                    }
                    if (g.wants(1)) {
                      g.input(1, run(c, MultiplyArgs{gradient.arg(), a.arg(), {}})[0]);
                    }
                  });
  return y;
}

Tensor scale(Context& cx, const Tensor& x, double factor) {
  Tensor y = run(cx, ScaleArgs{x.arg(), {}, factor})[0];
  if (!cx.recording()) return y;
  cx.tape->record("scale", std::array{x}, std::array{&y}, [factor](Context& c, Gradients& g) {
    g.input(0, run(c, ScaleArgs{g.output(0).arg(), {}, factor})[0]);
  });
  return y;
}

Tensor dropout(Context& cx,
               const Tensor& x,
               const Tensor& residual,
               const Tensor& row_ids,
               double p,
               u64 key,
               i64 feature_offset) {
  if (!cx.training()) p = 0;
  if (p == 0 && !residual.defined()) return x;
  DropoutArgs args;
  args.x = x.arg();
  if (residual.defined()) args.residual = residual.arg();
  args.row_ids = row_ids.arg();
  args.key = key;
  args.p = p;
  args.feature_offset = feature_offset;
  Tensor y = run(cx, args)[0];
  if (!cx.recording()) return y;
  const auto input_half = [row_ids = row_ids.with_var({}), p, key, feature_offset](Context& c,
                                                                                   Gradients& g) {
    const Tensor gradient = g.output(0);
    g.input(1, gradient);
    if (!g.wants(0)) return;
    if (p == 0) {
      g.input(0, gradient);
      return;
    }
    DropoutArgs back;
    back.x = gradient.arg();
    back.row_ids = row_ids.arg();
    back.key = key;
    back.p = p;
    back.feature_offset = feature_offset;
    g.input(0, run(c, back)[0]);
  };
  cx.tape->record("dropout", std::array{x, residual}, std::array{&y}, input_half);
  return y;
}

Tensor reshape(Context& cx, const Tensor& x, const Shape& shape) {
  Tensor y = x.view(shape);
  if (!cx.recording()) return y;
  cx.tape->record(
      "reshape", std::array{x}, std::array{&y}, [shape = x.shape()](Context&, Gradients& g) {
        g.input(0, g.output(0).view(shape));
      });
  return y;
}

namespace {

// Copies each part to its place in `whole`, or back. An undefined part is zero.
void copy_to_whole(Context& cx,
                   const std::vector<Tensor>& parts,
                   const Tensor& whole,
                   const std::vector<i64>& widths) {
  i64 begin = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const TensorArg place = whole.slice(1, begin, widths[i]).arg();
    begin += widths[i];
    if (parts[i].defined()) {
      run(cx, CopyArgs{parts[i].arg(), place});
    } else {
      run(cx, FillArgs{place, 0});
    }
  }
}

std::vector<Tensor> copies_of_parts(Context& cx,
                                    const Tensor& whole,
                                    const std::vector<i64>& widths) {
  std::vector<Tensor> parts;
  i64 begin = 0;
  for (const i64 width : widths) {
    parts.push_back(run(cx, CopyArgs{whole.slice(1, begin, width).arg(), {}})[0]);
    begin += width;
  }
  return parts;
}

std::vector<i64> widths_of(const std::vector<Tensor>& parts) {
  std::vector<i64> widths;
  for (const Tensor& part : parts) {
    require(part.rank() == 2 && part.dim(0) == parts[0].dim(0),
            "matrices of one number of rows are joined, got {} beside {}",
            part,
            parts[0]);
    widths.push_back(part.dim(1));
  }
  return widths;
}

}  // namespace

std::vector<Tensor> split(Context& cx, const Tensor& x, const std::vector<i64>& widths) {
  const i64 width = std::accumulate(widths.begin(), widths.end(), i64{0});
  require(x.rank() == 2 && x.dim(1) == width, "parts of {} features in all, of {}", width, x);
  std::vector<Tensor> parts = copies_of_parts(cx, x, widths);
  if (!cx.recording()) return parts;
  std::vector<Tensor*> outputs;
  for (Tensor& part : parts) outputs.push_back(&part);
  cx.tape->record("split",
                  std::array{x},
                  outputs,
                  [shape = x.shape(), dtype = x.dtype(), widths](Context& c, Gradients& g) {
                    Tensor whole = c.empty(shape, dtype);
                    std::vector<Tensor> gradients;
                    for (std::size_t i = 0; i < widths.size(); ++i) {
                      gradients.push_back(g.output(static_cast<int>(i)));
                    }
                    copy_to_whole(c, gradients, whole, widths);
                    g.input(0, std::move(whole));
                  });
  return parts;
}

Tensor join(Context& cx, const std::vector<Tensor>& parts) {
  require(!parts.empty(), "nothing is joined");
  const std::vector<i64> widths = widths_of(parts);
  const i64 width = std::accumulate(widths.begin(), widths.end(), i64{0});
  Tensor whole = cx.empty({parts[0].dim(0), width}, parts[0].dtype());
  copy_to_whole(cx, parts, whole, widths);
  if (!cx.recording()) return whole;
  cx.tape->record("join", parts, std::array{&whole}, [widths](Context& c, Gradients& g) {
    std::vector<Tensor> gradients = copies_of_parts(c, g.output(0), widths);
    for (std::size_t i = 0; i < widths.size(); ++i) {
      g.input(static_cast<int>(i), std::move(gradients[i]));
    }
  });
  return whole;
}

Tensor slice(Context& cx, const Tensor& x, int dim, i64 begin, i64 length) {
  Tensor y = run(cx, CopyArgs{x.slice(dim, begin, length).arg(), {}})[0];
  if (!cx.recording()) return y;
  const auto input_half = [shape = x.shape(), dim, begin, length](Context& c, Gradients& g) {
    const Tensor part = g.output(0);
    Tensor whole = c.empty(shape, part.dtype());
    run(c, FillArgs{whole.arg(), 0});
    run(c, CopyArgs{part.arg(), whole.slice(dim, begin, length).arg()});
    g.input(0, std::move(whole));
  };
  cx.tape->record("slice", std::array{x}, std::array{&y}, input_half);
  return y;
}

}  // namespace tessera::ops
