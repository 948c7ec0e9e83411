#include <array>

#include "sdk/src/autograd/linear_parts.hpp"
#include "tessera/base/collective.hpp"
#include "tessera/collectives.hpp"
#include "tessera/process_group.hpp"

namespace tessera::collectives {

namespace {

// Rows of a result while they still arrive.
struct Arriving {
  Tensor rows;
  Work work;
};

// Collectives take dense memory.
Tensor dense(Context& cx, const Tensor& x) {
  if (x.dense()) return x;
  return ops::run(cx, CopyArgs{x.arg(), {}})[0];
}

i64 part_of(i64 rows, const ProcessGroup& group) {
  require(rows % group.size() == 0,
          "{} rows do not divide among the {} ranks of {}",
          rows,
          group.size(),
          group.name());
  return rows / group.size();
}

Tensor empty_rows(Context& cx, const Tensor& like, i64 rows) {
  Shape shape = like.shape();
  shape[0] = rows;
  return cx.empty(shape, like.dtype());
}

Arriving all_rows(Context& cx, const Tensor& part, ProcessGroup& group, std::string_view name) {
  Tensor whole = empty_rows(cx, part, part.dim(0) * group.size());
  Work work = group.all_gather(*cx.stream, dense(cx, part), whole, name);
  return {std::move(whole), std::move(work)};
}

Arriving summed_part(Context& cx, const Tensor& whole, ProcessGroup& group, std::string_view name) {
  Tensor part = empty_rows(cx, whole, part_of(whole.dim(0), group));
  Work work = group.reduce_scatter(*cx.stream, dense(cx, whole), part, name);
  return {std::move(part), std::move(work)};
}

Arriving own_part(Context&, const Tensor& whole, ProcessGroup& group, std::string_view) {
  return {row_part(whole, group).with_var({}), {}};
}

using Exchange = Arriving (*)(Context&, const Tensor&, ProcessGroup&, std::string_view);

// Applies one exchange forward and the other backward, where it overlaps the weight half of the
// operation that follows in the model.
Tensor conjugate(std::string_view operation,
                 Exchange forward,
                 Exchange backward,
                 Context& cx,
                 const Tensor& x,
                 ProcessGroup& group,
                 std::string_view name) {
  if (group.size() == 1) return x;
  Arriving arriving = forward(cx, x, group, name);
  arriving.work.wait(*cx.stream);
  Tensor y = std::move(arriving.rows);
  if (!cx.recording()) return y;
  const auto input_half = [&group, backward, name = CallName(name)](Context& c, Gradients& g) {
    Arriving gradient = backward(c, g.take(0), group, name.view());
    g.input(0, std::move(gradient.rows), std::move(gradient.work));
  };
  cx.tape->record(operation, std::array{x}, std::array{&y}, input_half);
  return y;
}

}  // namespace

Tensor gather_rows(Context& cx, const Tensor& x, ProcessGroup& group, std::string_view name) {
  return conjugate("collectives::gather_rows", &all_rows, &summed_part, cx, x, group, name);
}

Tensor reduce_scatter_rows(Context& cx,
                           const Tensor& x,
                           ProcessGroup& group,
                           std::string_view name) {
  return conjugate("collectives::reduce_scatter_rows", &summed_part, &all_rows, cx, x, group, name);
}

Tensor split_rows(Context& cx, const Tensor& x, ProcessGroup& group, std::string_view name) {
  return conjugate("collectives::split_rows", &own_part, &all_rows, cx, x, group, name);
}

Tensor join_rows(Context& cx, const Tensor& x, ProcessGroup& group, std::string_view name) {
  return conjugate("collectives::join_rows", &all_rows, &own_part, cx, x, group, name);
}

Tensor gathered_linear(Context& cx,
                       const Tensor& x,
                       Parameter& weight,
                       Parameter* bias,
                       ProcessGroup& group,
                       std::string_view name) {
  if (group.size() == 1) return ops::linear(cx, x, weight, bias);
  const Tensor mine = x.with_var({});
  Arriving gathered = all_rows(cx, mine, group, name);
  gathered.work.wait(*cx.stream);
  Tensor y = linear_parts::forward(cx, gathered.rows, weight, bias);
  gathered = {};
  if (!cx.recording()) return y;

  // Filled by the input half only when the weight half follows at once: between split halves
  // nothing but this member's rows is kept.
  const auto again = std::make_shared<Arriving>();
  const auto input_half = [again, mine, &weight, &group, name = CallName(name)](Context& c,
                                                                                Gradients& g) {
    const Tensor gradient = g.output(0);
    if (g.half() == Half::both) *again = all_rows(c, mine, group, name.view());
    Arriving part =
        summed_part(c, linear_parts::input_gradient(c, gradient, weight), group, name.view());
    g.input(0, std::move(part.rows), std::move(part.work));
  };
  const auto weight_half = [again, mine, &weight, bias, &group, name = CallName(name)](
                               Context& c, Gradients& g) {
    const Tensor gradient = g.output(0);
    if (!again->rows.defined()) *again = all_rows(c, mine, group, name.view());
    again->work.wait(*c.stream);
    linear_parts::add_weight_gradient(c, gradient, again->rows, weight, bias);
    *again = {};
  };
  cx.tape->record(
      "collectives::gathered_linear", std::array{x}, std::array{&y}, input_half, weight_half);
  return y;
}

Tensor row_part(const Tensor& x, const ProcessGroup& group) {
  if (group.size() == 1) return x;
  const i64 part = part_of(x.dim(0), group);
  return x.slice(0, group.index() * part, part);
}

}  // namespace tessera::collectives
