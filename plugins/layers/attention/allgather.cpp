// Every rank gathers all keys and values before it computes, and again in the backward pass, so
// that only its own are kept in between (Grattafiori et al. 2024, "Llama 3", §3.3.2).
#include <array>

#include "queries.hpp"

namespace tessera {
namespace {

/// Keys and values, or their gradients, of all ranks: as they travel, [rank, half, k or v, block],
/// or in the order of positions, [k or v, blocks].
class Gathered {
 public:
  Gathered(const ContextAttention& attention)
      : group_(*attention.group),
        names_(*attention.names),
        layout_(attention.shape, group_.size()),
        elements_(layout_.positions() * layout_.position_elements()) {}

  Tensor gather(Context& cx, const Tensor& own) const {
    const Tensor parts = cx.empty(by_rank(), own.dtype());
    group_.all_gather(*cx.stream, own, parts, names_.keys).wait(*cx.stream);
    Tensor all = cx.empty({2, elements_}, own.dtype());
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
    return {layout_.keys(all, 0, positions), layout_.keys(all, elements_, positions), 0};
  }
  i64 elements() const { return elements_; }

 private:
  Shape by_rank() const { return {layout_.ranks(), zigzag::kHalves, 2, layout_.block_elements()}; }
  template <class Move>
  void reorder(Move&& move, const Tensor& parts, const Tensor& all) const {
    const i64 block = layout_.block_elements();
    for (i64 rank = 0; rank < layout_.ranks(); ++rank) {
      for (i64 half = 0; half < zigzag::kHalves; ++half) {
        const i64 from = (rank * zigzag::kHalves + half) * 2 * block;
        const i64 to = zigzag::chunk(layout_.ranks(), rank, half) * block;
        move(strided(parts, from, {{2, block}, {block, 1}}),
             strided(all, to, {{2, elements_}, {block, 1}}));
      }
    }
  }

  ProcessGroup& group_;
  const ContextNames& names_;
  PackedLayout layout_;
  i64 elements_;  // of all keys
};

Tensor backward(Context& cx,
                const Queries& queries,
                const Gathered& world,
                const Tensor& gradient) {
  const Tensor own = queries.layout().pack_keys(cx, queries.projections());
  const Tensor keys = world.gather(cx, own);
  const Tensor key_gradients = cx.empty(keys.shape(), sum_dtype(keys.dtype()));
  QueryGradients gradients(cx, queries, gradient);
  GradientSum sum(key_gradients, keys.dtype());
  for (int half = zigzag::kHalves - 1; half >= 0; --half) {  // the half that sees most first
    gradients.differentiate(cx, half, world.keys(keys, queries.horizon(half)), sum);
  }
  const i64 seen = queries.horizon(zigzag::kHalves - 1) * queries.layout().position_elements();
  if (seen < world.elements()) {
    ops::run(cx, FillArgs{key_gradients.slice(1, seen, world.elements() - seen).arg(), 0});
  }
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
