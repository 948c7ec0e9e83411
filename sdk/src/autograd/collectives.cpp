#include "tessera/collectives.hpp"

#include <array>

#include "tessera/base/collective.hpp"
#include "tessera/ops.hpp"
#include "tessera/process_group.hpp"

namespace tessera::collectives {

namespace {

Tensor part_of(Context& cx, const Tensor& x, const ProcessGroup& group) {
  const i64 features = x.dim(-1);
  require(features % group.size() == 0,
          "{} features do not divide among the {} ranks of {}",
          features,
          group.size(),
          group.name());
  const i64 length = features / group.size();
  return ops::run(cx, CopyArgs{x.slice(x.rank() - 1, group.index() * length, length).arg(), {}})[0];
}

Tensor whole_of(Context& cx, const Tensor& x, ProcessGroup& group, std::string_view name) {
  const i64 n = x.dim(0), features = x.dim(1), size = group.size();
  const Tensor parts = cx.empty({size, n, features}, x.dtype());
  group.all_gather(*cx.stream, x, parts.view({size * n, features}), name).wait(*cx.stream);
  Tensor whole = cx.empty({n, size * features}, x.dtype());
  CopyArgs args{parts.arg(), whole.arg()};
  args.out.rank = 3;  // [member, row, feature] of the row-major result
  const i64 sizes[] = {size, n, features}, strides[] = {features, size * features, 1};
  for (int i = 0; i < 3; ++i) {
    args.out.shape[i] = sizes[i];
    args.out.strides[i] = strides[i];
  }
  ops::run(cx, args);
  return whole;
}

void check(const Tensor& x, std::string_view name) {
  require(x.rank() == 2, "{}: expected [rows, features], got {}", name, x);
}

}  // namespace

Tensor copy(Context& cx, const Tensor& x, ProcessGroup& group, std::string_view name) {
  if (group.size() == 1 || !cx.recording()) return x;
  Tensor y = x.with_var({});
  const auto input_half = [&group, name = CallName(name)](Context& c, Gradients& g) {
    Tensor gradient = g.take(0);
    if (!gradient.sole_owner()) {
      gradient = ops::run(c, CopyArgs{gradient.arg(), {}})[0];
    }
    Work work = group.all_reduce(*c.stream, gradient, ReduceOp::sum, name.view());
    g.input(0, std::move(gradient), std::move(work));
  };
  cx.tape->record("collectives::copy", std::array{x}, std::array{&y}, input_half);
  return y;
}

Tensor reduce(Context& cx, Tensor x, ProcessGroup& group, std::string_view name) {
  if (group.size() == 1) return x;
  const Var var = x.var();
  Tensor y = std::move(x).with_var({});
  x = {};
  if (!y.sole_owner() || !y.dense()) {
    y = ops::run(cx, CopyArgs{y.arg(), {}})[0];
  }
  group.all_reduce(*cx.stream, y, ReduceOp::sum, name).wait(*cx.stream);
  if (!cx.recording()) return y;
  const Tensor tracked = y.with_var(var);
  cx.tape->record(
      "collectives::reduce", std::array{tracked}, std::array{&y}, [](Context&, Gradients& g) {
        g.input(0, g.take(0));
      });
  return y;
}

Tensor scatter(Context& cx, const Tensor& x, ProcessGroup& group, std::string_view name) {
  if (group.size() == 1) return x;
  check(x, name);
  Tensor y = part_of(cx, x, group);
  if (!cx.recording()) return y;
  cx.tape->record("collectives::scatter",
                  std::array{x},
                  std::array{&y},
                  [&group, name = CallName(name)](Context& c, Gradients& g) {
                    g.input(0, whole_of(c, g.output(0), group, name.view()));
                  });
  return y;
}

Tensor gather(Context& cx, const Tensor& x, ProcessGroup& group, std::string_view name) {
  if (group.size() == 1) return x;
  check(x, name);
  Tensor y = whole_of(cx, x, group, name);
  if (!cx.recording()) return y;
  cx.tape->record(
      "collectives::gather", std::array{x}, std::array{&y}, [&group](Context& c, Gradients& g) {
        g.input(0, part_of(c, g.output(0), group));
      });
  return y;
}

}  // namespace tessera::collectives
