// Every rank gathers all keys and values before it computes, and again in the backward pass, so
// that only its own are kept in between (Grattafiori et al. 2024, "Llama 3", §3.3.2).
#include <array>

#include "queries.hpp"

namespace tessera {
namespace {

/// Keys and values, or their gradients, of all ranks: as they travel, [rank, half, elements], or in
/// the order of positions, the block of all keys, then that of all values.
class Gathered {
 public:
  Gathered(const ContextAttention& attention)
      : group_(*attention.group),
        names_(*attention.names),
        layout_(attention.shape, group_.size()) {}

  Tensor gather(Context& cx, const Tensor& own) const {
    const Tensor parts = cx.empty(by_rank(), own.dtype());
    group_.all_gather(*cx.stream, own, parts, names_.keys).wait(*cx.stream);
    Tensor all = cx.empty({elements()}, own.dtype());
    reorder([&](const TensorArg& part, const TensorArg& at) { copy(cx, part, at); }, parts, all);
    return all;
  }
  /// This rank's part of the sum over the ranks, with the shape and dtype of `like`.
  Tensor scatter_sum(Context& cx, const Tensor& all, const Tensor& like) const {
    const Tensor parts = cx.empty(by_rank(), like.dtype());
    reorder([&](const TensorArg& part, const TensorArg& at) { copy(cx, at, part); }, parts, all);
    Tensor own = cx.empty(like.shape(), like.dtype());
    group_.reduce_scatter(*cx.stream, parts, own, names_.key_gradients).wait(*cx.stream);
    return own;
  }
  /// The keys and values of the first `positions` positions.
  Keys keys(const Tensor& all, i64 positions) const {
    return {layout_.keys(all, 0, positions), layout_.values(all, of_keys(), positions), 0};
  }
  i64 of_keys() const { return layout_.key_elements(layout_.positions()); }
  i64 elements() const { return of_keys() + layout_.value_elements(layout_.positions()); }

 private:
  Shape by_rank() const { return {layout_.ranks(), zigzag::kHalves, layout_.half_elements()}; }
  template <class Move>
  void reorder(Move&& move, const Tensor& parts, const Tensor& all) const {
    const i64 keys = layout_.key_elements(layout_.chunk()),
              values = layout_.value_elements(layout_.chunk());
    for (i64 rank = 0; rank < layout_.ranks(); ++rank) {
      for (i64 half = 0; half < zigzag::kHalves; ++half) {
        const i64 from = (rank * zigzag::kHalves + half) * layout_.half_elements();
        const i64 chunk = zigzag::chunk(layout_.ranks(), rank, half);
        move(strided(parts, from, {{keys, 1}}), strided(all, chunk * keys, {{keys, 1}}));
        move(strided(parts, from + keys, {{values, 1}}),
             strided(all, of_keys() + chunk * values, {{values, 1}}));
      }
    }
  }

  ProcessGroup& group_;
  const ContextNames& names_;
  PackedLayout layout_;
};

Tensor backward(Context& cx,
                const Queries& queries,
                const Gathered& world,
                const Tensor& gradient) {
  const Tensor own = queries.layout().pack_keys(cx, queries.projections());
  const Tensor keys = world.gather(cx, own);
  const Tensor key_gradients = cx.empty(keys.shape(), sum_dtype(keys.dtype()));
  QueryGradients gradients(cx, queries, gradient);
  const Tensor of_keys = key_gradients.slice(0, 0, world.of_keys()),
               of_values =
                   key_gradients.slice(0, world.of_keys(), world.elements() - world.of_keys());
  KeyGradientSums sums{{of_keys, keys.dtype()}, {of_values, keys.dtype()}};
  for (int half = zigzag::kHalves - 1; half >= 0; --half) {  // the half that sees most first
    gradients.differentiate(cx, half, world.keys(keys, queries.horizon(half)), sums);
  }
  const PackedLayout& layout = queries.layout();
  const i64 seen = queries.horizon(zigzag::kHalves - 1);
  const auto clear_after = [&](const Tensor& all, i64 elements) {
    if (elements == all.dim(0)) return;
    ops::run(cx, FillArgs{all.slice(0, elements, all.dim(0) - elements).arg(), 0});
  };
  clear_after(of_keys, layout.key_elements(seen));
  clear_after(of_values, layout.value_elements(seen));
  return gradients.projections(cx, world.scatter_sum(cx, key_gradients, own));
}

}  // namespace

Tensor allgather_attention(Context& cx,
                           const Tensor& qkv,
                           const Tensor& rows,
                           const ContextAttention& attention) {
  const Gathered world(attention);
  Queries queries(cx, qkv, rows, attention);
  const Tensor keys = world.gather(cx, queries.layout().pack_keys(cx, qkv));
  for (int half = 0; half < zigzag::kHalves; ++half) {
    queries.attend(cx, half, world.keys(keys, queries.horizon(half)));
  }
  Tensor out = queries.result(cx);
  if (!cx.recording()) return out;
  cx.tape->record("allgather_attention",
                  std::array{qkv},
                  std::array{&out},
                  [queries = std::move(queries), world](Context& c, Gradients& g) {
                    g.input(0, backward(c, queries, world, g.output(0)));
                  });
  return out;
}

}  // namespace tessera
