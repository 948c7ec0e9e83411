#include "queries.hpp"

#include <utility>

namespace tessera {

Queries::Queries(Context& cx,
                 const Tensor& qkv,
                 const Tensor& row_ids,
                 const ContextAttention& attention)
    : layout_(attention.shape, attention.group->size()),
      spec_(attention.spec),
      qkv_(qkv.with_var({})) {
  const ops::AttentionShape& shape = attention.shape;
  const i64 width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
  require(shape.sequence % zigzag::kHalves == 0 &&
              qkv.shape() == Shape({shape.batch * shape.sequence, width}),
          "{}: {} samples × {} positions in two halves, with {} + 2·{} heads of {}, got "
          "projections {}",
          attention.names->layer,
          shape.batch,
          shape.sequence,
          shape.heads,
          shape.kv_heads,
          shape.head_dim,
          qkv.text());
  if (!cx.training()) spec_.dropout = 0;
  out_ = cx.empty({qkv.dim(0), shape.heads * shape.head_dim}, sum_dtype(qkv.dtype()));
  for (int half = 0; half < zigzag::kHalves; ++half) {
    const i64 chunk = zigzag::chunk(layout_.ranks(), attention.group->index(), half);
    halves_[static_cast<std::size_t>(half)].first = chunk * layout_.chunk();
    if (spec_.dropout > 0) {
      halves_[static_cast<std::size_t>(half)].row_ids = layout_.rows_of(cx, row_ids, half);
    }
  }
}

i64 Queries::horizon(int half) const {
  if (!spec_.causal) return layout_.positions();
  return halves_[static_cast<std::size_t>(half)].first + layout_.chunk();
}

// Query i of the half is at first + i, key j at keys.first + j.
AttentionSpec Queries::spec_for(const Half& half, const Keys& keys) const {
  AttentionSpec spec = spec_;
  spec.causal_offset = half.first - keys.first;
  spec.key_offset = keys.first;
  return spec;
}

void Queries::attend(Context& cx, int half, const Keys& keys) {
  Half& queries = halves_[static_cast<std::size_t>(half)];
  AttentionArgs args;
  args.q = layout_.queries(qkv_, half);
  args.k = keys.k;
  args.v = keys.v;
  if (queries.row_ids.defined()) args.row_ids = queries.row_ids.arg();
  args.spec = spec_for(queries, keys);
  const bool first = !std::exchange(queries.met, true);
  const TensorArg whole = layout_.results(out_, half);
  if (first && out_.dtype() == qkv_.dtype()) {
    args.out = whole;
    queries.lse = ops::run(cx, args)[1];
    return;
  }
  const auto part = ops::run(cx, args);
  if (first) {
    copy(cx, part[0].arg(), whole);
    queries.lse = part[1];
    return;
  }
  const Tensor wide = converted(cx, part[0], out_.dtype());
  ops::run(cx, AttentionMergeArgs{wide.arg(), part[1].arg(), whole, queries.lse.arg()});
}

Tensor Queries::result(Context& cx) {
  out_ = converted(cx, out_, qkv_.dtype());
  return out_;
}

Tensor GradientSum::next(Context& cx, i64 length) {
  const bool in_place = !begun_ && sum_.dtype() == parts_;
  next_ = in_place ? sum_.slice(1, 0, length) : cx.empty({sum_.dim(0), length}, parts_);
  return next_;
}

void GradientSum::add(Context& cx) {
  const bool in_place = !begun_ && sum_.dtype() == parts_;
  const Tensor part = converted(cx, next_, sum_.dtype());
  for (int i = 0; !in_place && i < sum_.dim(0); ++i) {
    const TensorArg sum = sum_.slice(0, i, 1).slice(1, 0, next_.dim(1)).arg();
    const TensorArg row = part.slice(0, i, 1).arg();
    if (!begun_) {
      copy(cx, row, sum);
      continue;
    }
    ops::run(cx, AddArgs{sum, row, sum});
  }
  begun_ = true;
  next_ = {};
}

QueryGradients::QueryGradients(Context& cx, const Queries& queries, Tensor gradient)
    : queries_(queries), gradient_(std::move(gradient)) {
  const DType parts = gradient_.dtype();
  sum_ = cx.empty({zigzag::kHalves, gradient_.elements() / zigzag::kHalves}, sum_dtype(parts));
  for (int half = 0; half < zigzag::kHalves; ++half) {
    sums_.emplace_back(sum_.slice(0, half, 1), parts);
  }
}

void QueryGradients::differentiate(Context& cx, int half, const Keys& keys, GradientSum& key_sum) {
  const PackedLayout& layout = queries_.layout_;
  const Queries::Half& queries = queries_.halves_[static_cast<std::size_t>(half)];
  GradientSum& query_sum = sums_[static_cast<std::size_t>(half)];
  const i64 positions = keys.k.shape[1];
  const Tensor key_part = key_sum.next(cx, positions * layout.position_elements());
  const Tensor query_part = query_sum.next(cx, sum_.dim(1));
  AttentionBackwardArgs args;
  args.q = layout.queries(queries_.qkv_, half);
  args.k = keys.k;
  args.v = keys.v;
  if (queries.row_ids.defined()) args.row_ids = queries.row_ids.arg();
  args.out = layout.results(queries_.out_, half);
  args.lse = queries.lse.arg();
  args.grad = layout.results(gradient_, half);
  args.q_grad = layout.dense_queries(query_part);
  args.k_grad = layout.keys(key_part, 0, positions);
  args.v_grad = layout.keys(key_part, key_part.strides()[0], positions);
  args.spec = queries_.spec_for(queries, keys);
  ops::run(cx, args);
  key_sum.add(cx);
  query_sum.add(cx);
}

Tensor QueryGradients::projections(Context& cx, const Tensor& key_blocks) const {
  const PackedLayout& layout = queries_.layout_;
  Tensor gradients = cx.empty(queries_.qkv_.shape(), queries_.qkv_.dtype());
  for (int half = 0; half < zigzag::kHalves; ++half) {
    copy(cx, layout.dense_queries(sum_.slice(0, half, 1)), layout.queries(gradients, half));
  }
  layout.unpack_keys(cx, key_blocks, gradients);
  return gradients;
}

}  // namespace tessera
