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
  require(shape.sequence % zigzag::kHalves == 0 &&
              qkv.shape() == Shape({shape.batch * shape.sequence, shape.features()}),
          "{}: {} samples × {} positions in two halves, with {} features, got projections {}",
          attention.names->layer,
          shape.batch,
          shape.sequence,
          shape.features(),
          qkv.text());
  if (!cx.training()) spec_.dropout = 0;
  out_ = cx.empty({qkv.dim(0), shape.result_features()}, sum_dtype(qkv.dtype()));
  for (int half = 0; half < zigzag::kHalves; ++half) {
    Half& queries = halves_[static_cast<std::size_t>(half)];
    queries.first =
        zigzag::chunk(layout_.ranks(), attention.group->index(), half) * layout_.chunk();
    const auto rows = [&](const Tensor& all) {
      return all.defined() ? layout_.rows_of(cx, all, half) : Tensor();
    };
    if (spec_.dropout > 0) queries.row_ids = rows(row_ids);
    queries.first_keys = rows(attention.limits.first);
    queries.last_keys = rows(attention.limits.last);
  }
}

i64 Queries::horizon(int half) const {
  if (!spec_.causal) return layout_.positions();
  return halves_[static_cast<std::size_t>(half)].first + layout_.chunk();
}

bool Queries::reach(int half, i64 first) const {
  if (first >= horizon(half)) return false;
  const i64 earliest = halves_[static_cast<std::size_t>(half)].first - spec_.window + 1;
  return spec_.window == 0 || first + layout_.chunk() > earliest;
}

// Query i of the half is at first + i, key j at keys.first + j.
template <class Args>
void Queries::give(Args& args, int half, const Keys& keys) const {
  const Half& queries = halves_[static_cast<std::size_t>(half)];
  args.q = layout_.queries(qkv_, half);
  args.k = keys.k;
  args.v = keys.v;
  if (queries.row_ids.defined()) {
    args.row_ids = queries.row_ids.view({queries.row_ids.elements()}).arg();
  }
  if (queries.first_keys.defined()) args.first = queries.first_keys.arg();
  if (queries.last_keys.defined()) args.last = queries.last_keys.arg();
  args.spec = spec_;
  args.spec.causal_offset = queries.first - keys.first;
  args.spec.key_offset = keys.first;
}

void Queries::attend(Context& cx, int half, const Keys& keys) {
  Half& queries = halves_[static_cast<std::size_t>(half)];
  AttentionArgs args;
  give(args, half, keys);
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
  next_ = in_place ? sum_.slice(0, 0, length) : cx.empty({length}, parts_);
  return next_;
}

void GradientSum::add(Context& cx) {
  const bool in_place = !begun_ && sum_.dtype() == parts_;
  const Tensor part = converted(cx, next_, sum_.dtype());
  const TensorArg sum = sum_.slice(0, 0, next_.dim(0)).arg();
  if (!begun_ && !in_place) copy(cx, part.arg(), sum);
  if (begun_) ops::run(cx, AddArgs{sum, part.arg(), sum});
  begun_ = true;
  next_ = {};
}

QueryGradients::QueryGradients(Context& cx, const Queries& queries, Tensor gradient)
    : queries_(queries), gradient_(std::move(gradient)) {
  const DType parts = gradient_.dtype();
  const i64 elements = queries.layout_.query_elements();
  sum_ = cx.empty({zigzag::kHalves, elements}, sum_dtype(parts));
  for (int half = 0; half < zigzag::kHalves; ++half) {
    sums_.emplace_back(sum_.slice(0, half, 1).view({sum_.dim(1)}), parts);
  }
}

void QueryGradients::differentiate(Context& cx, int half, const Keys& keys, KeyGradientSums& sums) {
  const PackedLayout& layout = queries_.layout_;
  GradientSum& query_sum = sums_[static_cast<std::size_t>(half)];
  const i64 positions = keys.k.shape[1];
  const Tensor key_part = sums.keys.next(cx, layout.key_elements(positions));
  const Tensor value_part = sums.values.next(cx, layout.value_elements(positions));
  const Tensor query_part = query_sum.next(cx, sum_.dim(1));
  AttentionBackwardArgs args;
  queries_.give(args, half, keys);
  args.out = layout.results(queries_.out_, half);
  args.lse = queries_.halves_[static_cast<std::size_t>(half)].lse.arg();
  args.grad = layout.results(gradient_, half);
  args.q_grad = layout.dense_queries(query_part);
  args.k_grad = layout.keys(key_part, 0, positions);
  args.v_grad = layout.values(value_part, 0, positions);
  ops::run(cx, args);
  sums.keys.add(cx);
  sums.values.add(cx);
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
